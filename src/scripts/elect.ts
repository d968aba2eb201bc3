import type { Script } from "../script.ts";
import { type EntryReply, entryScript } from "./entry-script.ts";

/** What stands in an entry, and whether this token is the one that may rebuild it. */
export type ElectReply = EntryReply<"none" | "won" | "hit" | "busy" | "back-off">;

/**
 * ELECT: reads an entry and makes this token its builder where it needs one. Hit, miss, poll and takeover in one call;
 * a second copy of the request finds itself elected already, with the same fence.
 *
 * KEYS entry
 * ARGV token, lease in ms, prefix of the accepted codec, mode: 0 only reads, 1 elects, 2 elects in any case (`set`),
 *      how old a payload may be to come with "busy", in ms
 *
 * Replies as in EntryReply. The payload comes with "hit", "won", "none" and "back-off" if there is one, with "busy" if
 * it is not too old. A hit writes nothing.
 */
export const electScript: Script<ElectReply> = entryScript(`
local left, age, p = n('lu') - now, now - n('fu'), known()
if left > 0 and h.t == ARGV[1] then return r('won', left, p) end
if ARGV[4] ~= '2' then
  if p and age < 0 then return r('hit', -age, p) end
  if ARGV[4] == '0' then return r('none', 0, p) end
  if left > 0 then return r('busy', left, age < ARGV[5] + 0 and p) end
  if now < n('bu') then return r('back-off', n('bu') - now, p) end
end
w('t', ARGV[1], 'lf', f, 'ls', ARGV[4] == '2' and '0' or s(now), 'lu', s(now + ARGV[2]))
return r('won', n('lu') - now, p)`);
