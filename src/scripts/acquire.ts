import type { Reply } from "../command.ts";
import type { Script } from "../script.ts";
import { verdict } from "./integers.ts";

/** What a node said to an acquire. */
export interface AcquireReply {
  /** The last three answer a proposal only. */
  readonly type: "cancelled" | "held" | "granted" | "fence-in-future" | "fence-too-low" | "quarantined";
  /** The fence that was granted, else the highest that this node has granted; the server's µs for "fence-in-future". */
  readonly fence: number;
  /** What is left of the lease, ours or another's, or of the quarantine; -1 where the key has no expiry. */
  readonly remainingMs: number;
}

/** The line that chooses the fence, which `propose.ts` replaces. */
export const chooseFence = "local f = math.max(c + 1, now)";

/**
 * ACQUIRE: grants the lock to a token, or finds that the token has it already (the reply to an earlier try was lost).
 *
 * KEYS lock, fence, tombstone of the token
 * ARGV token, lease in ms
 *
 * Replies, durations in ms:
 *   { 1, fence, remaining }     granted now, or already ours: then nothing has changed
 *   { 0, counter, remaining }   held by another; remaining is -1 where the key has no expiry
 *   { -1, counter, 0 }          this token has been rolled back
 *
 * The fence is written before the lock: Lua has no roll-back, and a fence without a grant is harmless while a grant
 * without a fence is not. The counter outlives its last grant by 7 days, and longer where it runs ahead of the clock, so
 * that it cannot restart below an issued number; after that the server's clock in µs carries the order on. Time is the
 * server's own, read once.
 */
export const acquireScript: Script<AcquireReply> = {
  source: `
local m = redis.call('MGET', KEYS[1], KEYS[2], KEYS[3])
local c = tonumber(m[2]) or 0
if m[1] then return { m[1] == ARGV[1] and 1 or 0, c, redis.call('PTTL', KEYS[1]) } end
if m[3] then return { -1, c, 0 } end
local t = redis.call('TIME')
local now = t[1] * 1000000 + t[2]
${chooseFence}
redis.call('SET', KEYS[2], string.format('%.0f', f), 'PX', 604800000 + math.max(0, math.ceil((f - now) / 1000)))
if not redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then return { 0, f, -1 } end
return { 1, f, tonumber(ARGV[2]) }
`.trim(),
  decode: (reply) => decodeAcquire(reply, ["cancelled", "held", "granted"]),
};

/** What was said, by the types that stand for the codes up to 1. */
export function decodeAcquire(
  reply: Reply,
  types: readonly (AcquireReply["type"] | undefined)[],
): AcquireReply | undefined {
  const [type, fence = 0, remainingMs = 0] = verdict(reply, 3, types);
  return !type || (type === "granted" && (remainingMs < 0 || fence < 1)) ? undefined : { type, fence, remainingMs };
}
