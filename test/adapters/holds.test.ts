import { expect, test } from "vitest";
import { createHolds } from "../../adapters/measurements/holds.ts";
import { elapsedMs } from "../../src/clock.ts";

const at = (ms: number): { monotonic: number; wall: number } => ({ monotonic: ms, wall: ms });

test("no more than 10 000 leases are followed: the oldest are forgotten, and nothing is counted of them", () => {
  const holds = createHolds();
  for (let fence = 1; fence <= 10_001; fence += 1) holds.begin({ name: "job", fence }, 1_000, at(0));
  expect(holds.end({ name: "job", fence: 1 }, at(500))).toBeUndefined();
  expect(holds.prolong({ name: "job", fence: 1 }, 1_000, at(500))).toBeUndefined();
  expect(holds.end({ name: "job", fence: 2 }, at(500))).toEqual({ heldMs: 500, used: 0.5, mostUsed: 0.5 });
  expect(holds.end({ name: "job", fence: 10_001 }, at(500))).toBeDefined();
});

test("a lease is told by name and fence, and ends once", () => {
  const holds = createHolds();
  holds.begin({ name: "1 a", fence: 2 }, 1_000, at(0));
  holds.begin({ name: "a", fence: 1 }, 1_000, at(0));
  expect(holds.end({ name: "a", fence: 2 }, at(1))).toBeUndefined();
  expect(holds.end({ name: "a", fence: 1 }, at(1))).toBeDefined();
  expect(holds.end({ name: "a", fence: 1 }, at(1))).toBeUndefined();
  expect(holds.end({ name: "1 a", fence: 2 }, at(1))).toBeDefined();
});

test("the largest part that was used is kept across renewals, each counted from the one before", () => {
  const holds = createHolds();
  const lease = { name: "job", fence: 1 };
  holds.begin(lease, 1_000, at(0));
  expect(holds.prolong(lease, 2_000, at(900))).toBe(0.9);
  expect(holds.prolong(lease, 1_000, at(1_900))).toBe(0.5);
  expect(holds.end(lease, at(2_200), 100)).toEqual({ heldMs: 2_100, used: 0.2, mostUsed: 0.9 });
});

test("a grant with nothing left, and an end before it, are no division by zero and no negative time", () => {
  const holds = createHolds();
  holds.begin({ name: "job", fence: 1 }, 0, at(0));
  expect(holds.end({ name: "job", fence: 1 }, at(0), 50)).toEqual({ heldMs: 0, used: 0, mostUsed: 0 });
  expect(elapsedMs(at(1), at(0))).toBe(Number.POSITIVE_INFINITY); // which the observer leaves out
});
