/**
 * How long to wait before the next attempt.
 *
 * @module
 */

/** The bounds of the pauses between attempts. */
export interface Backoff {
  /** After the first failure. @default {1_000} */
  readonly firstMs?: number;
  /** @default {300_000} */
  readonly longestMs?: number;
}

/**
 * Twice as long after each failure, in whole ms, and a random half of it: what failed together must not come back together.
 * `chance` is a number from 0 to 1.
 */
export function backoffMs(attempt: number, { firstMs = 1_000, longestMs = 300_000 }: Backoff, chance: number): number {
  const ms = Math.min(longestMs, firstMs * 2 ** Math.min(attempt - 1, 52));
  return Math.round(ms * (0.5 + chance / 2));
}
