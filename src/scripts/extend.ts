import type { Script } from "../script.ts";
import { integers } from "./integers.ts";

/** What a node said to an extend. */
export type ExtendReply =
  | { readonly type: "extended"; readonly remainingMs: number }
  | { readonly type: "absent" }
  | { readonly type: "foreign" };

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
  name: "extend",
  source: `
local v = redis.pcall('GET', KEYS[1])
if v ~= ARGV[1] then return { v and -1 or 0, 0 } end
local p = redis.call('PTTL', KEYS[1])
local want = tonumber(ARGV[2])
if p < want then redis.call('PEXPIRE', KEYS[1], ARGV[2]) p = want end
return { 1, p }
`.trim(),
  decode(reply) {
    const [verdict, remainingMs] = integers(reply, 2) ?? [];
    if (verdict === 1 && remainingMs !== undefined && remainingMs >= 0) return { type: "extended", remainingMs };
    return verdict === 0 ? { type: "absent" } : verdict === -1 ? { type: "foreign" } : undefined;
  },
};
