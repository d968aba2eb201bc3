/**
 * Names to keys. No two names share a key, and every derived key stands in the slot of its lock.
 *
 * @module
 */
import { invalid } from "./validate.ts";

/** The keys of one lock, all in one slot of a Redis Cluster. */
export interface LockKeys {
  /** Holds the token alone, with the lease as its expiry. */
  readonly lock: string;
  /** Holds the fence of the latest grant. */
  readonly fence: string;
  /** Stands while an attempt of this token must not be granted any more. */
  tombstone(token: string): string;
}

/** The keys of the lock of this name. Refuses a name that could be taken for a derived key of another. */
export function lockKeys(prefix: string, name: string): LockKeys {
  if (bringsTag(name) && /:void:|:fence$/.test(name)) {
    throw invalid("name", name, 'free of ":void:" and a final ":fence"');
  }
  const lock = `${prefix}:${tagged(name)}`;
  return { lock, fence: `${lock}:fence`, tombstone: (token) => `${lock}:void:${token}` };
}

/** The key of one entry of a cache. */
export function cacheKey(prefix: string, key: string): string {
  return `${prefix}:${tagged(key)}`;
}

/** Where the highest fence that has written a key stands: in the slot of the key, wherever that is. */
export function fenceKeyOf(key: string): string {
  if (hasTag(key)) return `${key}:fence`;
  if (/[{}]/.test(key)) throw invalid("key", key, "without braces, or with a hash tag");
  return `{${key}}::fence`;
}

/** Gives a name its one hash tag: its own if it brings one, else all of it. */
function tagged(name: string): string {
  return bringsTag(name) ? name.replace(/%/g, encodeURIComponent) : `{${name.replace(/[%{}]/g, encodeURIComponent)}}`;
}

/**
 * Whether a name has a hash tag of its own, so that a lock can stand in the slot of the data it guards. "{x}" alone does
 * not count, as that is how the name "x" is written.
 */
function bringsTag(name: string): boolean {
  return hasTag(name) && !/^\{[^{}]*\}$/.test(name);
}

/**
 * Redis Cluster's rule: what stands between the first "{" and the next "}", if anything. See
 * https://redis.io/docs/latest/operate/oss_and_stack/reference/cluster-spec/.
 */
function hasTag(key: string): boolean {
  return /^[^{]*\{[^}]+\}/.test(key);
}
