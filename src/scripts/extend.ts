import type { Script } from "../script.ts";
import { verdict } from "./integers.ts";

const verdicts = ["foreign", "absent", "extended"] as const;

/** What a node said to an extend. */
export interface ExtendReply {
  /** "foreign" is another token, or a key of another type. */
  readonly type: (typeof verdicts)[number];
  /** What is left of the lease, 0 where it is not ours. */
  readonly remainingMs: number;
}

/**
 * EXTEND: sets what is left of a lease that this token still has. Never shortens, so that a late copy of an earlier
 * extend cannot take back what its holder counts on, and never creates, so that an expired lease stays over.
 *
 * KEYS lock
 * ARGV token, lease in ms
 *
 * Replies: { 1, remaining ms }, { 0, 0 } absent, { -1, 0 } another token, or a key of another type.
 */
export const extendScript: Script<ExtendReply> = {
  source: `
local v = redis.pcall('GET', KEYS[1])
if v ~= ARGV[1] then return { v and -1 or 0, 0 } end
local p, want = redis.call('PTTL', KEYS[1]), tonumber(ARGV[2])
if p < want then redis.call('PEXPIRE', KEYS[1], ARGV[2]) end
return { 1, math.max(p, want) }
`.trim(),
  decode(reply) {
    const [type, remainingMs = -1] = verdict(reply, 2, verdicts);
    return type && remainingMs >= 0 ? { type, remainingMs } : undefined;
  },
};
