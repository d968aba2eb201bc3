import type { Script } from "../script.ts";
import { type EntryReply, entryScript } from "./entry-script.ts";

/**
 * INVALIDATE: voids the election and the back-off. Hard: the value is gone. Soft: it is not fresh any more, and of use
 * for as long as it would have been.
 *
 * KEYS entry
 * ARGV mode: 0 hard, 1 soft
 *
 * Replies "invalidated": no value elected before its fence is stored after it.
 *
 * The deletion comes first and is enough for safety, so that a server that is out of memory invalidates too: what is
 * written after it names the reason to a builder that comes too late, and keeps the duration that waiters go by.
 */
export const invalidateScript: Script<EntryReply<"invalidated">> = entryScript(`
local fu, d = s(math.min(n('fu'), now)), s(n('d'))
if ARGV[1] == '1' then
  redis.call('HDEL', KEYS[1], 'fu', 'lu', 'e', 'bu')
  h.lu, h.bu = nil
else
  redis.call('DEL', KEYS[1])
  h, fu = {}, '0'
end
pcall(w, 'lf', f, 'fl', f, 'fu', fu, 'd', d)
return r('invalidated', 0)`);
