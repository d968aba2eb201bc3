import type { Script } from "../script.ts";
import { verdict } from "./integers.ts";

const verdicts = ["foreign", "absent", "deleted"] as const;

/** What a node found when it was to release a token. */
export interface ReleaseReply {
  /** "foreign" is another token, or a key of another type. */
  readonly type: (typeof verdicts)[number];
}

/**
 * RELEASE: deletes the lock if this token holds it; with a tombstone also a roll-back, which no later copy of the
 * token's acquire can undo.
 *
 * KEYS lock, tombstone of the token
 * ARGV token, life of the tombstone in ms ('0' writes none)
 *
 * Replies: 1 deleted, 0 absent, -1 another token, or a key of another type.
 *
 * The tombstone comes after the delete: a server that is out of memory refuses the write, and must not strand the lock.
 */
export const releaseScript: Script<ReleaseReply> = {
  source: `
local v = redis.pcall('GET', KEYS[1])
local r = v == ARGV[1] and redis.call('DEL', KEYS[1]) or v and -1 or 0
if ARGV[2] ~= '0' then redis.pcall('SET', KEYS[2], '1', 'PX', ARGV[2]) end
return r
`.trim(),
  decode(reply) {
    const [type] = verdict([reply], 1, verdicts);
    return type && { type };
  },
};
