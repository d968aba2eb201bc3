import type { Script } from "../script.ts";
import { entryPrelude } from "./entry.ts";
import { integers } from "./integers.ts";

/** Whether a value was stored. A refusal may bring the newer value that stands instead. */
export interface CommitReply {
  readonly type: "stored" | "gone" | "invalidated" | "superseded";
  readonly newer?: { readonly payload: string; readonly fence: number };
}

/**
 * COMMIT: stores a value if this election still stands. One whose lease has ended stands until another is elected; one
 * of this token with another fence is a late copy's, and is dropped.
 *
 * KEYS entry
 * ARGV token, fence, prefix of the codec, payload, how long it is fresh in ms
 *
 * Replies { 1, fence } stored, now or by an earlier copy; { 0 | -1 | -2, 0 } refused as the entry is gone, invalidated
 * or superseded; { …, fence, payload } with the newer value.
 *
 * How long builds take is learnt fast when they are fast and slowly when slow, or one slow build taxes all later waits.
 */
export const commitScript: Script<CommitReply> = {
  source: `${entryPrelude}
local fence, d, took = tonumber(ARGV[2]), n('d'), math.max(1, now - n('ls'))
if h.f == ARGV[2] then return { 1, fence } end
if not mine then
  if h.t == ARGV[1] then redis.call('HDEL', KEYS[1], 'lu') end
  local newer = n('f') > fence and now < n('fu') and string.sub(h.p or '', 1, #ARGV[3]) == ARGV[3]
  return { not h.lf and 0 or n('fl') > fence and -1 or -2, n('f'), newer and h.p }
end
if n('ls') > 0 then d = (d == 0 or took < d) and (d + took) / (d == 0 and 1 or 2) or 0.7 * d + 0.3 * took end
w('p', ARGV[4], 'f', ARGV[2], 'fu', s(now + ARGV[5]), 'd', s(d), 'lu', '0', 'e', '0', 'bu', '0')
return { 1, fence }`,
  decode(reply) {
    if (!Array.isArray(reply)) return undefined;
    const [code = 2, fence = 0] = integers(reply.slice(0, 2), 2) ?? [];
    const type = (["superseded", "invalidated", "gone", "stored"] as const)[code + 2];
    const payload: unknown = reply[2];
    if (type === undefined) return undefined;
    return typeof payload === "string" ? { type, newer: { payload, fence } } : { type };
  },
};
