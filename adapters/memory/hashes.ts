/**
 * HSET and HDEL, for the commands and for the scripts.
 *
 * @module
 */
import type { Keyspace } from "./keyspace.ts";

/** Sets fields, leaves the key's expiry as it is, and returns how many fields are new. @throws ReplyError WRONGTYPE */
export function setFields(redis: Keyspace, key: string, fields: Iterable<readonly [string, string]>): number {
  const hash = redis.hash(key) ?? new Map<string, string>();
  const before = hash.size;
  for (const [field, value] of fields) hash.set(field, value);
  redis.replace(key, hash);
  return hash.size - before;
}

/** Deletes fields, with the last one the key, and returns how many there were. @throws ReplyError WRONGTYPE */
export function deleteFields(redis: Keyspace, key: string, ...fields: string[]): number {
  const hash = redis.hash(key);
  const deleted = fields.filter((field) => hash?.delete(field)).length;
  if (hash?.size === 0) redis.delete(key);
  return deleted;
}
