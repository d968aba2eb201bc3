import type { Script } from "../script.ts";
import { entryPrelude } from "./entry.ts";
import { integers } from "./integers.ts";

/** What stands in an entry, and whether this token is the one that may rebuild it. */
export interface ElectReply {
  readonly type: "none" | "won" | "hit" | "busy" | "back-off";
  /** "stale": may be served while another builds. "rescue": only where a build fails. */
  readonly age: "none" | "rescue" | "stale" | "fresh";
  /** The fence of the election ("won"), else the last one given. */
  readonly attempt: number;
  /** The fence of the payload. */
  readonly fence: number;
  /** What is left of freshness ("hit"), of the election ("won", "busy") or of the back-off. */
  readonly leftMs: number;
  /** With "busy": how long the build has run, and how long one usually takes, 0 where that is unknown. */
  readonly elapsedMs: number;
  readonly usualMs: number;
  readonly payload: string | undefined;
}

/**
 * ELECT: reads an entry and makes this token its builder where it needs one. Hit, miss, poll and takeover in one call;
 * a second copy of the request finds itself elected already, with the same fence.
 *
 * KEYS entry
 * ARGV token, lease in ms, prefix of the accepted codec, mode: 0 only reads, 1 elects, 2 elects in any case (`set`)
 * Replies { verdict, age, attempt, fence, left, elapsed, usual, payload or nothing }, as in ElectReply
 * A hit writes nothing.
 */
export const electScript: Script<ElectReply> = {
  name: "elect",
  source: `${entryPrelude}
local age, left, ls = 0, n('lu') - now, n('ls')
local known = string.sub(h.p or '', 1, #ARGV[3]) == ARGV[3]
if known then age = now < n('fu') and 3 or now < n('su') and 2 or now < n('xu') and 1 or 0 end
local function r(verdict, ms, least)
  return { verdict, age, n('lf'), n('f'), ms, ls > 0 and now - ls or 0, n('d'), age >= least and h.p }
end
if left > 0 and h.t == ARGV[1] then return r(1, left, 1) end
if ARGV[4] ~= '2' then
  if age == 3 then return r(2, n('fu') - now, 1) end
  if ARGV[4] == '0' then return r(0, 0, 1) end
  if left > 0 then return r(3, left, 2) end
  if now < n('bu') then return r(4, n('bu') - now, 1) end
end
w('t', ARGV[1], 'lf', f, 'ls', ARGV[4] == '2' and '0' or s(now), 'lu', s(now + ARGV[2]))
return r(1, n('lu') - now, 1)`,
  decode(reply) {
    if (!Array.isArray(reply)) return undefined;
    const [verdict = -1, ageNumber = -1, attempt = 0, fence = 0, leftMs = 0, elapsedMs = 0, usualMs = 0] =
      integers(reply.slice(0, 7), 7) ?? [];
    const type = (["none", "won", "hit", "busy", "back-off"] as const)[verdict];
    const age = (["none", "rescue", "stale", "fresh"] as const)[ageNumber];
    const payload = typeof reply[7] === "string" ? reply[7] : undefined;
    if (type === undefined || age === undefined || (type === "hit" && payload === undefined)) return undefined;
    return { type, age, attempt, fence, leftMs, elapsedMs, usualMs, payload };
  },
};
