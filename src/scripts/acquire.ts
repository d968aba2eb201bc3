import type { Script } from "../script.ts";
import { integers } from "./integers.ts";

const verdicts = ["fence-in-future", "fence-too-low", undefined, "cancelled", "held", "granted"] as const;

/** What a node said to an acquire. */
export interface AcquireReply {
  readonly type: Exclude<(typeof verdicts)[number], undefined>;
  /** The fence that was granted, else the highest that this node has granted; the server's µs for "fence-in-future". */
  readonly fence: number;
  /** What is left of the lease, ours or another's; -1 where the key has no expiry. */
  readonly remainingMs: number;
}

/**
 * ACQUIRE: grants the lock to a token, or finds that the token has it already (the reply to an earlier try was lost).
 *
 * KEYS lock, fence, tombstone of the token
 * ARGV token, lease in ms, proposed fence ('' lets the node choose)
 *
 * Replies, durations in ms:
 *   { 1, fence, remaining }     granted now, or already ours: then nothing has changed
 *   { 0, counter, remaining }   held by another; remaining is -1 where the key has no expiry
 *   { -1, counter, 0 }          this token has been rolled back
 *   { -3, counter, 0 }          the proposed fence is not above the counter
 *   { -4, server µs, 0 }        the proposed fence is more than a day ahead of the server's clock
 *
 * The fence is written before the lock: Lua has no roll-back, and a fence without a grant is harmless while a grant
 * without a fence is not. The counter outlives its last grant by 7 days, and longer where a proposal ran ahead, so that
 * it cannot restart below an issued number; after that the server's clock in µs carries the order on. A missing counter
 * refuses a proposal that is older than a lease (a day at most), which a node that forgot its data may have granted.
 * Time is the server's own, read once.
 */
export const acquireScript: Script<AcquireReply> = {
  name: "acquire",
  source: `
local m = redis.call('MGET', KEYS[1], KEYS[2], KEYS[3])
local c = tonumber(m[2] or '') or 0
if m[1] then return { m[1] == ARGV[1] and 1 or 0, c, redis.call('PTTL', KEYS[1]) } end
if m[3] then return { -1, c, 0 } end
local t = redis.call('TIME')
local now = t[1] * 1000000 + t[2]
local f = math.max(c + 1, now)
if ARGV[3] ~= '' then
  f = tonumber(ARGV[3])
  if f > now + 86400000000 then return { -4, now, 0 } end
  if c == 0 then c = now - 1000 * math.min(tonumber(ARGV[2]), 86400000) end
  if f <= c then return { -3, c, 0 } end
end
local life = 604800000 + math.max(0, math.ceil((f - now) / 1000))
redis.call('SET', KEYS[2], string.format('%.0f', f), 'PX', string.format('%.0f', life))
if not redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then return { 0, f, -1 } end
return { 1, f, tonumber(ARGV[2]) }
`.trim(),
  decode(reply) {
    const [code = 2, fence = 0, remainingMs = 0] = integers(reply, 3) ?? [];
    const type = verdicts[code + 4];
    return !type || (type === "granted" && remainingMs < 0) ? undefined : { type, fence, remainingMs };
  },
};
