import type { Script } from "../script.ts";
import { entryPrelude } from "./entry.ts";
import { integers } from "./integers.ts";

/** What stands in an entry, and whether this token is the one that may rebuild it. */
export interface ElectReply {
  readonly type: "none" | "won" | "hit" | "busy" | "back-off";
  /** The fence of the election ("won"), else the last one given. */
  readonly attempt: number;
  /** The fence of the payload. */
  readonly fence: number;
  /** What is left of freshness ("hit"), of the election ("won", "busy") or of the back-off. */
  readonly leftMs: number;
  /** With "busy": how long the build has run, and how long one usually takes, 0 where that is unknown. */
  readonly elapsedMs: number;
  readonly usualMs: number;
  /** With "hit". */
  readonly payload?: string;
}

/**
 * ELECT: reads an entry and makes this token its builder where it needs one. Hit, miss, poll and takeover in one call;
 * a second copy of the request finds itself elected already, with the same fence.
 *
 * KEYS entry
 * ARGV token, lease in ms, prefix of the accepted codec, mode: 0 only reads, 1 elects, 2 elects in any case (`set`)
 *
 * Replies { verdict, attempt, fence, left, elapsed, usual, payload or nothing }, as in ElectReply. A hit writes nothing.
 */
export const electScript: Script<ElectReply> = {
  source: `${entryPrelude}
local left, ls = n('lu') - now, n('ls')
local fresh = now < n('fu') and string.sub(h.p or '', 1, #ARGV[3]) == ARGV[3]
local function r(verdict, ms)
  return { verdict, n('lf'), n('f'), ms, ls > 0 and now - ls or 0, n('d'), verdict == 2 and h.p }
end
if left > 0 and h.t == ARGV[1] then return r(1, left) end
if ARGV[4] ~= '2' then
  if fresh then return r(2, n('fu') - now) end
  if ARGV[4] == '0' then return r(0, 0) end
  if left > 0 then return r(3, left) end
  if now < n('bu') then return r(4, n('bu') - now) end
end
w('t', ARGV[1], 'lf', f, 'ls', ARGV[4] == '2' and '0' or s(now), 'lu', s(now + ARGV[2]))
return r(1, n('lu') - now)`,
  decode(reply) {
    if (!Array.isArray(reply)) return undefined;
    const [verdict = -1, attempt = 0, fence = 0, leftMs = 0, elapsedMs = 0, usualMs = 0] =
      integers(reply.slice(0, 6), 6) ?? [];
    const type = (["none", "won", "hit", "busy", "back-off"] as const)[verdict];
    const payload: unknown = reply[6];
    if (type === undefined) return undefined;
    const entry = { type, attempt, fence, leftMs, elapsedMs, usualMs };
    if (typeof payload === "string") return { ...entry, payload };
    return type === "hit" ? undefined : entry;
  },
};
