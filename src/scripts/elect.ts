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
  /** With "busy": how long the build has run, and how long one usually takes, -1 where that is unknown. */
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
 * Replies { verdict, age, attempt, fence, left, elapsed, usual, payload or nothing }, as in ElectReply. A hit writes
 * nothing. The key outlives the lease by a minute or more, for a late builder whom nobody has replaced.
 */
export const electScript: Script<ElectReply> = {
  name: "elect",
  source: `${entryPrelude}
local m = redis.call('HMGET', KEYS[1], 'p', 'f', 'fu', 'su', 'xu', 't', 'lf', 'ls', 'lu', 'd', 'bu')
local function n(i) return tonumber(m[i] or '') or 0 end
local p, age, lease, left = m[1], 0, tonumber(ARGV[2]), n(9) - now
if p and string.sub(p, 1, #ARGV[3]) == ARGV[3] then age = now < n(3) and 3 or now < n(4) and 2 or now < n(5) and 1 or 0 end
local function r(verdict, ms, took, usual, body) return { verdict, age, n(7), n(2), ms, took, usual, age > 0 and body } end
if left > 0 and m[6] == ARGV[1] then return r(1, left, 0, 0, p) end
if ARGV[4] ~= '2' then
  if age == 3 then return r(2, n(3) - now, 0, 0, p) end
  if ARGV[4] == '0' then return r(0, 0, 0, 0, p) end
  if left > 0 and n(8) == 0 then return r(3, left, 0, 0, age > 1 and p) end
  if left > 0 then return r(3, left, math.max(0, now - n(8)), tonumber(m[10] or '') or -1, age > 1 and p) end
  if now < n(11) then return r(4, n(11) - now, 0, 0, p) end
end
m[7] = s(math.max(us, n(7) + 1))
redis.call('HSET', KEYS[1], 't', ARGV[1], 'lf', m[7], 'ls', ARGV[4] == '2' and '0' or s(now), 'lu', s(now + lease))
redis.call('PEXPIRE', KEYS[1], s(math.max(n(5) - now, lease + math.max(lease, 60000))))
return r(1, lease, 0, 0, p)`,
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
