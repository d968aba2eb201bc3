import fc from "fast-check";
import { expect, test } from "vitest";
import { type Hint, lookAgainMs as lookAgain } from "../../src/cache/waiting.ts";

interface Waiter extends Hint {
  readonly sleeps: number;
  readonly roundTripMs: number;
  readonly chance: number;
}

const known: Waiter = { sleeps: 0, leftMs: 10_000, elapsedMs: 100, usualMs: 400, roundTripMs: 30, chance: 0 };
const unknown: Waiter = { ...known, usualMs: 0 };

function lookAgainMs(given: Waiter): number {
  return lookAgain(given, given.sleeps, given.roundTripMs, given.chance);
}

test("waits until the build should be over, a round trip and up to a tenth more", () => {
  expect(lookAgainMs(known)).toBe(330);
  expect(lookAgainMs({ ...known, chance: 0.999 })).toBeCloseTo(360, 0);
});

test("looks halfway first where the build takes long, and then waits for the rest", () => {
  expect(lookAgainMs({ ...known, usualMs: 4_100 })).toBe(2_000);
  expect(lookAgainMs({ ...known, usualMs: 700 })).toBe(500);
  expect([601, 600].map((usualMs) => lookAgainMs({ ...known, usualMs }))).toEqual([500, 530]);
  expect(lookAgainMs({ ...known, usualMs: 4_100, sleeps: 1 })).toBe(4_030);
});

test("waits half of what the build has taken when it should be over, 25 to 500 ms", () => {
  expect(lookAgainMs({ ...known, elapsedMs: 600 })).toBe(300);
  expect(lookAgainMs({ ...known, elapsedMs: 5_000 })).toBe(500);
  expect(lookAgainMs({ ...known, elapsedMs: 10, usualMs: 5 })).toBe(25);
  expect(lookAgainMs({ ...known, elapsedMs: 1, usualMs: 1 })).toBe(25);
});

test("doubles from 100 to 500 ms where nobody knows how long it takes", () => {
  expect([0, 1, 2, 3, 9].map((sleeps) => lookAgainMs({ ...unknown, sleeps }))).toEqual([100, 200, 400, 500, 500]);
});

test("never waits past the end of the lease and 50 ms, and never less than nothing", () => {
  const hint = fc.record({
    sleeps: fc.nat(20),
    leftMs: fc.integer({ min: 1, max: 60_000 }),
    elapsedMs: fc.nat(60_000),
    usualMs: fc.integer({ min: 0, max: 60_000 }),
    roundTripMs: fc.nat(3_000),
    chance: fc.double({ min: 0, max: 0.999, noNaN: true }),
  });
  fc.assert(
    fc.property(hint, (given) => {
      const ms = lookAgainMs(given);
      expect(ms).toBeGreaterThanOrEqual(0);
      expect(ms).toBeLessThanOrEqual(given.leftMs + 50);
    }),
  );
});
