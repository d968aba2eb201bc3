/**
 * When a reader looks again at an entry that another is building. Pure, all in ms.
 *
 * @module
 */

/** What the server said of the build elsewhere. */
export interface Hint {
  /** What is left of the builder's lease: above 0. */
  readonly leftMs: number;
  /** How long the build has run. */
  readonly elapsedMs: number;
  /** How long a build usually takes, 0 where none has ended yet. */
  readonly usualMs: number;
}

/**
 * How long to sleep before the next look, for a reader that has slept so often.
 *
 * 1. The build will take a while yet: until it should be over, one round trip and up to a tenth more, never less. If
 *    that is above 500 ms, a look halfway first, as builds fail and fast ones end early.
 * 2. It should be over: half of what it has taken, 25 to 500 ms.
 * 3. Nobody knows: 100 ms, doubling, 500 ms at most.
 *
 * And never past the end of the lease, after which this reader may build itself; up to 50 ms more spread those who wait.
 * An 800 ms build so costs a waiter 3 requests, where polling each 100 ms would cost 8.
 *
 * @param chance from 0 up to, not including, 1
 */
export function lookAgainMs(
  { leftMs, elapsedMs, usualMs }: Hint,
  sleeps: number,
  roundTripMs: number,
  chance: number,
): number {
  const etaMs = usualMs - elapsedMs;
  let ms = etaMs * (1 + chance / 10) + roundTripMs;
  if (usualMs === 0) ms = Math.min(500, 100 * 2 ** sleeps);
  else if (etaMs <= 0) ms = Math.min(500, Math.max(25, elapsedMs / 2));
  else if (etaMs > 500 && !sleeps) ms = Math.max(500, etaMs / 2);
  return Math.min(ms, leftMs + chance * 50);
}
