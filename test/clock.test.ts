import { getEventListeners } from "node:events";
import { afterEach, describe, expect, test, vi } from "vitest";
import { elapsedMs, sleep, systemClock } from "../src/clock.ts";
import { VirtualClock } from "./support/virtual-clock.ts";

const dayMs = 86_400_000;

afterEach(() => vi.unstubAllGlobals());

/** Replaces the runtime's timers: `fire` ends the one that is pending, at once. */
function stubTimers<Timer>(create: (id: number) => Timer) {
  const delays: number[] = [];
  let pending: { timer: Timer; callback: () => void } | undefined;
  vi.stubGlobal("setTimeout", (callback: () => void, ms: number) => {
    delays.push(ms);
    pending = { timer: create(delays.length), callback };
    return pending.timer;
  });
  vi.stubGlobal("clearTimeout", (timer: unknown) => {
    if (timer === pending?.timer) pending = undefined;
  });
  const fire = (): void => {
    const { callback } = pending ?? expect.fail("No timer is pending");
    pending = undefined;
    callback();
  };
  return { delays, fire, isPending: () => pending !== undefined };
}

describe("systemClock", () => {
  test("reads the runtime's two clocks", () => {
    const before = { monotonic: performance.now(), wall: Date.now() };
    const { monotonic, wall } = systemClock.now();
    expect(monotonic).toBeGreaterThanOrEqual(before.monotonic);
    expect(monotonic).toBeLessThanOrEqual(performance.now());
    expect(wall).toBeGreaterThanOrEqual(before.wall);
    expect(wall).toBeLessThanOrEqual(Date.now());
  });

  test("after() calls back once, after the current task", async () => {
    const callback = vi.fn();
    const called = new Promise<void>((resolve) => systemClock.after(0, true, () => resolve(callback())));
    expect(callback).not.toHaveBeenCalled();
    await called;
    expect(callback).toHaveBeenCalledTimes(1);
  });

  // B14: a runtime takes a delay above 2^31 - 1 for 1 ms.
  test("after() walks 90 days in steps that a timer can hold", () => {
    const { delays, fire, isPending } = stubTimers((id) => ({ id }));
    const callback = vi.fn();
    systemClock.after(90 * dayMs, true, callback);
    for (let step = 1; step < 4; step += 1) fire();
    expect(callback).not.toHaveBeenCalled();
    fire();
    expect(callback).toHaveBeenCalledTimes(1);
    expect(isPending()).toBe(false);
    expect(delays.reduce((a, b) => a + b)).toBe(90 * dayMs);
    for (const delay of delays) expect(delay).toBeLessThanOrEqual(2_147_483_647);
  });

  test("after() takes the longest delay of a timer in one step, and never a negative one", () => {
    const { delays, fire } = stubTimers((id) => ({ id }));
    systemClock.after(2 ** 31 - 1, true, () => {});
    fire();
    systemClock.after(-5, true, () => {});
    expect(delays).toEqual([2 ** 31 - 1, 0]);
  });

  test("after() can be cancelled at any step", () => {
    for (const steps of [0, 1, 3]) {
      const { fire, isPending } = stubTimers((id) => ({ id }));
      const callback = vi.fn();
      const cancel = systemClock.after(90 * dayMs, true, callback);
      for (let step = 0; step < steps; step += 1) fire();
      cancel();
      expect(isPending()).toBe(false);
      expect(callback).not.toHaveBeenCalled();
    }
  });

  test("after() lets the process end where it was asked to, at every step", () => {
    const unref = vi.fn();
    const { fire } = stubTimers(() => ({ unref }));
    systemClock.after(1_000, true, () => {});
    expect(unref).not.toHaveBeenCalled();
    systemClock.after(30 * dayMs, false, () => {});
    expect(unref).toHaveBeenCalledTimes(1);
    fire();
    expect(unref).toHaveBeenCalledTimes(2);
  });

  // J01: not every runtime has timers with unref.
  test.for<[string, (id: number) => unknown]>([
    ["a number", (id) => id],
    ["an object without unref", (id) => ({ id })],
  ])("after() works where a timer is %s", ([, create]) => {
    const { fire } = stubTimers(create);
    const callback = vi.fn();
    systemClock.after(1_000, false, callback);
    fire();
    expect(callback).toHaveBeenCalledTimes(1);
  });
});

describe("elapsedMs()", () => {
  const start = { monotonic: 1_000, wall: 1_700_000_000_000 };
  const elapsed = (monotonic: number, wall: number): number =>
    elapsedMs(start, { monotonic: start.monotonic + monotonic, wall: start.wall + wall });

  test("is the larger of what the two clocks say", () => {
    expect(elapsed(250, 250)).toBe(250);
    expect(elapsed(250, 260)).toBe(260);
    expect(elapsed(0, 3_600_000)).toBe(3_600_000); // the machine slept, or the wall clock was set forward
    expect(elapsed(250, 0)).toBe(250);
    expect(elapsed(0, 0)).toBe(0);
  });

  test("a wall clock that is set back does not stretch anything", () => {
    expect(elapsed(250, -3_600_000)).toBe(250);
    expect(elapsed(0, -1)).toBe(0);
  });

  test("is infinite where both clocks ran backwards, as nothing is known then", () => {
    expect(elapsed(-1, -1)).toBe(Infinity);
  });
});

describe("sleep()", () => {
  test("resolves after its time, and keeps the process alive until then", async () => {
    const clock = new VirtualClock();
    const slept = vi.fn();
    const sleeping = sleep(clock, 250).then(slept);
    expect(clock.pending).toEqual([{ inMs: 250, keepsAlive: true }]);
    await clock.advance(249);
    expect(slept).not.toHaveBeenCalled();
    await clock.advance(1);
    expect(slept).toHaveBeenCalledTimes(1);
    await sleeping;
  });

  test("rejects with the signal's reason as soon as it aborts, and leaves no timer and no listener", async () => {
    const clock = new VirtualClock();
    const controller = new AbortController();
    const sleeping = sleep(clock, 250, controller.signal);
    const reason = new Error("enough");
    controller.abort(reason);
    await expect(sleeping).rejects.toBe(reason);
    expect(clock.pending).toEqual([]);
    expect(getEventListeners(controller.signal, "abort")).toEqual([]);
  });

  test("rejects at once where the signal has aborted before", async () => {
    const clock = new VirtualClock();
    const signal = AbortSignal.abort("early");
    await expect(sleep(clock, 250, signal)).rejects.toBe("early");
    expect(clock.pending).toEqual([]);
    expect(getEventListeners(signal, "abort")).toEqual([]);
  });

  // A09: a waiter that retried for an hour left a listener behind for each retry.
  test("leaves no listener on a signal that outlives it", async () => {
    const clock = new VirtualClock();
    const { signal } = new AbortController();
    for (let i = 0; i < 100; i += 1) await clock.until(sleep(clock, 1, signal));
    expect(getEventListeners(signal, "abort")).toEqual([]);
  });
});
