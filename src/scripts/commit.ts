import type { Script } from "../script.ts";
import { type EntryReply, entryScript } from "./entry-script.ts";

/** Whether a value was stored. A refusal brings the newer value that stands instead, where there is one. */
export type CommitReply = EntryReply<"stored" | "gone" | "invalidated" | "superseded">;

/**
 * COMMIT: stores a value if this election still stands. One whose lease has ended stands until another is elected; one
 * of this token with another fence is a late copy's, and is dropped.
 *
 * KEYS entry
 * ARGV token, fence, prefix of the codec, payload, how long it is fresh, and of use, in ms
 *
 * Replies "stored", now or by an earlier copy; or why it is refused: the entry is "gone", "invalidated" or "superseded",
 * then with the payload that is newer, if it is fresh.
 *
 * How long builds take is learnt fast when they are fast and slowly when slow, or one slow build taxes all later waits.
 */
export const commitScript: Script<CommitReply> = entryScript(`
local fence, d, took = ARGV[2] + 0, n('d'), now - n('ls') + 1
if h.f == ARGV[2] then return r('stored', 0) end
if not mine then
  if h.t == ARGV[1] then redis.call('HDEL', KEYS[1], 'lu') end
  local why = not h.lf and 'gone' or n('fl') > fence and 'invalidated' or 'superseded'
  return r(why, 0, n('f') > fence and now < n('fu') and known())
end
if n('ls') > 0 then d = d > 0 and d + (took - d) * (took < d and .5 or .3) or took end
w('p', ARGV[4], 'f', ARGV[2], 'fu', s(now + ARGV[5]), 'xu', s(now + ARGV[6]), 'd', s(d), 'lu', '0', 'e', '0', 'bu', '0')
return r('stored', 0)`);
