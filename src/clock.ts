/**
 * Time: the only file that touches timers, `Date` or `performance`.
 *
 * @module
 */
import { type Signal, untilAborted } from "./command.ts";

/** One instant on both clocks of this process, in ms. */
export interface Stamp {
  readonly monotonic: number;
  readonly wall: number;
}

/** What a simulator replaces to own time. */
export interface Clock {
  /** Reads both clocks. */
  now(): Stamp;
  /**
   * Calls back once after `ms`, never before the current task has ended. `keepsAlive` says whether a process may end
   * while it is pending. Returns what cancels it.
   */
  after(ms: number, keepsAlive: boolean, callback: () => void): () => void;
}

/** The runtime's own clock. */
export const systemClock: Clock = {
  now: () => ({ monotonic: performance.now(), wall: Date.now() }),
  after(ms, keepsAlive, callback) {
    let timer: unknown;
    const step = (left: number): void => {
      // Timers hold their delay in 32 signed bits, and a longer one fires at once, so it is walked in steps.
      const next = Math.min(left, 2 ** 31 - 1);
      timer = setTimeout(() => (left > next ? step(left - next) : callback()), next);
      if (!keepsAlive) (timer as { unref?: () => void }).unref?.(); // it is a number on older Deno and Workers
    };
    step(Math.max(0, ms));
    return () => clearTimeout(timer as number);
  },
};

/**
 * Milliseconds since a stamp: the larger of what the two clocks say, since the monotonic one stands still while some
 * machines sleep and the wall clock can be set back. Infinity if both ran backwards: then nothing is known.
 */
export function elapsedMs(since: Stamp, now: Stamp): number {
  const ms = Math.max(now.monotonic - since.monotonic, now.wall - since.wall);
  return ms < 0 ? Infinity : ms;
}

/** How long something took, in ms, by the clock that only steps forward: nothing may be promised on it. */
export function msSince(clock: Clock, start: Stamp): number {
  return Math.max(0, clock.now().monotonic - start.monotonic);
}

/** Resolves after `ms` and keeps the process alive; rejects with the signal's reason as soon as it aborts. */
export function sleep(clock: Clock, ms: number, signal?: Signal): Promise<void> {
  let cancel: (() => void) | undefined;
  const slept = new Promise<void>((resolve) => {
    cancel = clock.after(ms, true, resolve);
  });
  return untilAborted(slept, signal).finally(cancel);
}
