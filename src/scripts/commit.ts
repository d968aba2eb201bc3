import type { Script } from "../script.ts";
import { entryPrelude } from "./entry.ts";
import { integers } from "./integers.ts";

/** Whether a value was stored. A refusal may bring the newer value that stands instead. */
export type CommitReply =
  | { readonly type: "stored" }
  | {
      readonly type: "gone" | "invalidated" | "superseded";
      readonly newer?: { readonly payload: string; readonly fence: number };
    };

/**
 * COMMIT: stores a value if this election still stands, which needs both its token and its fence: a late copy of an
 * election can win a second time with the same token. A lease that has ended still stands until somebody else is elected.
 *
 * KEYS entry
 * ARGV token, fence, prefix of the codec, payload, fresh ms, stale ms and error ms beyond that
 *
 * Replies { 1, fence } stored, now or by an earlier copy; { 0 | -1 | -2, 0 } refused as the entry is gone, invalidated
 * or superseded; { …, fence, payload } with the newer value. The key lives a minute longer than its value may be
 * served, so that the next readers know how long a build takes.
 *
 * How long builds take is learnt fast when they are fast and slowly when slow, or one slow build taxes all later waits.
 */
export const commitScript: Script<CommitReply> = {
  name: "commit",
  source: `${entryPrelude}
local m = redis.call('HMGET', KEYS[1], 't', 'lf', 'f', 'fl', 'ls', 'd', 'p', 'fu')
local function n(i) return tonumber(m[i] or '') or 0 end
if m[3] == ARGV[2] then return { 1, n(3) } end
if m[1] ~= ARGV[1] or m[2] ~= ARGV[2] then
  if m[1] == ARGV[1] then redis.call('HDEL', KEYS[1], 't', 'ls', 'lu') end
  local f = tonumber(ARGV[2])
  local why = not m[2] and 0 or n(4) > f and -1 or -2
  if n(3) > f and now < n(8) and string.sub(m[7], 1, #ARGV[3]) == ARGV[3] then return { why, n(3), m[7] } end
  return { why, 0 }
end
local d, took = tonumber(m[6] or ''), now - n(5)
if n(5) > 0 then d = not d and took or took < d and 0.5 * d + 0.5 * took or 0.7 * d + 0.3 * took end
local fresh, stale, err = tonumber(ARGV[5]), tonumber(ARGV[6]), tonumber(ARGV[7])
local last = fresh + math.max(stale, err)
redis.call('HSET', KEYS[1], 'p', ARGV[4], 'f', ARGV[2], 'fu', s(now + fresh), 'su', s(now + fresh + stale), 'xu', s(now + last),
  'd', d and s(d) or '', 't', '', 'ls', '0', 'lu', '0', 'e', '0', 'bu', '0')
redis.call('PEXPIRE', KEYS[1], s(last + 60000))
return { 1, tonumber(ARGV[2]) }`,
  decode(reply) {
    if (!Array.isArray(reply)) return undefined;
    const [verdict, fence] = integers(reply.slice(0, 2), 2) ?? [];
    if (verdict === 1) return { type: "stored" };
    const refused = verdict === 0 ? "gone" : verdict === -1 ? "invalidated" : verdict === -2 ? "superseded" : undefined;
    if (refused === undefined || fence === undefined) return undefined;
    const payload: unknown = reply[2];
    return typeof payload === "string" ? { type: refused, newer: { payload, fence } } : { type: refused };
  },
};
