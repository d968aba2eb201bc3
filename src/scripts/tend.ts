import type { Script } from "../script.ts";
import { type EntryReply, entryScript } from "./entry-script.ts";

/** What became of this election, or that it was over already. */
export type TendReply = EntryReply<"renewed" | "failed" | "over">;

/**
 * TEND: renews an election, or gives it back. A renewal gives it another lease from now, never shortens it, and never
 * brings one back. After a failed build nobody is elected for a second, twice as long with each failure in a row and
 * 30 s at most; the value that stands is not touched.
 *
 * KEYS entry
 * ARGV token, fence, prefix of the accepted codec, what for: the lease in ms to renew it, 0 to give it up, -1 as the
 *      build failed
 *
 * Replies "renewed", or "failed" with the back-off and the old payload if there is one; "over" where it was given up, or,
 * with the payload that is there now, where it does not stand any more: another was elected, or the entry was invalidated
 * or lost.
 *
 * Deletes before it writes: a server that is out of memory must not keep an election that is over.
 */
export const tendScript: Script<TendReply> = entryScript(`
local lease = ARGV[4] + 0
if not mine then return r('over', 0, known()) end
if lease > 0 then
  w('lu', s(math.max(n('lu'), now + lease)))
  return r('renewed', n('lu') - now)
end
redis.call('HDEL', KEYS[1], 'lu')
h.lu = nil
if lease == 0 then return r('over', 0) end
local wait = math.min(30000, 1000 * 2 ^ n('e'))
w('e', s(n('e') + 1), 'bu', s(now + wait))
return r('failed', wait, known())`);
