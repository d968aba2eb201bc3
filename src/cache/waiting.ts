/**
 * When a reader looks again at an entry that another is building. Pure, all in ms.
 *
 * @module
 */

/** What a waiter knows when it is told "busy". Durations are the server's. */
export interface Hint {
  /** Looks so far after which this reader slept: 0 before its first sleep. */
  readonly sleeps: number;
  /** What is left of the builder's lease. */
  readonly leftMs: number;
  /** How long the build has run. */
  readonly elapsedMs: number;
  /** How long a build usually takes, 0 where none has ended yet. */
  readonly usualMs: number;
  readonly roundTripMs: number;
  /** From 0 up to, not including, 1. */
  readonly chance: number;
}

/**
 * The sleep before the next look.
 *
 * 1. The build will take a while yet: until it should be over, one round trip and up to a tenth more, never less. If
 *    that is above 500 ms, a look halfway first, as builds fail and fast ones end early.
 * 2. It should be over: half of what it has taken, 25 to 500 ms.
 * 3. Nobody knows: 100 ms, doubling, 500 ms at most.
 *
 * And never past the end of the lease, after which this reader may build itself; up to 50 ms more spread those who wait.
 * An 800 ms build so costs a waiter 3 requests, where polling each 100 ms would cost 8.
 */
export function lookAgainMs({ sleeps, leftMs, elapsedMs, usualMs, roundTripMs, chance }: Hint): number {
  const takeoverMs = Math.max(0, leftMs) + chance * 50;
  const untilDoneMs = usualMs - elapsedMs;
  let sleepMs: number;
  if (usualMs === 0) sleepMs = Math.min(500, 100 * 2 ** sleeps);
  else if (untilDoneMs <= 0) sleepMs = Math.min(500, Math.max(25, elapsedMs / 2));
  else if (untilDoneMs > 500 && sleeps === 0) sleepMs = Math.max(500, untilDoneMs / 2);
  else sleepMs = untilDoneMs * (1 + chance / 10) + roundTripMs;
  return Math.min(sleepMs, takeoverMs);
}
