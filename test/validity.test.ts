import fc from "fast-check";
import { describe, expect, test } from "vitest";
import {
  defaultDriftFactor,
  estimateMs,
  flightMs,
  isTooShort,
  leastUsefulLeaseMs,
  majority,
  nodeRemainingMs,
  nodeTimeoutMs,
  quorumRemainingMs,
  quorumTrip,
  type RoundTrip,
  sampled,
  timedOut,
  tombstoneMs,
  unknownRoundTrip,
} from "../src/validity.ts";

const ms = fc.integer({ min: 0, max: 365 * 86_400_000 });
const trip: fc.Arbitrary<RoundTrip> = fc.oneof(
  fc.constant(unknownRoundTrip),
  fc
    .array(fc.integer({ min: 0, max: 60_000 }), { minLength: 1 })
    .map((times) => times.reduce(sampled, unknownRoundTrip)),
);

describe("nodeRemainingMs()", () => {
  test("charges the whole round trip, and the drift of the lease", () => {
    const bound = { elapsedMs: 80, remainingMs: 10_000, leaseMs: 10_000 };
    expect(nodeRemainingMs(bound, defaultDriftFactor)).toBe(10_000 - 80 - 100 - 2);
    expect(nodeRemainingMs(bound, 0)).toBe(10_000 - 80 - 2);
  });

  test("rounds the drift up, and takes it of the larger of what was asked for and what is left", () => {
    expect(nodeRemainingMs({ elapsedMs: 0, remainingMs: 101, leaseMs: 101 }, 0.01)).toBe(101 - 4);
    expect(nodeRemainingMs({ elapsedMs: 0, remainingMs: 20_000, leaseMs: 10_000 }, 0.01)).toBe(20_000 - 202);
    expect(nodeRemainingMs({ elapsedMs: 0, remainingMs: 5_000, leaseMs: 10_000 }, 0.01)).toBe(5_000 - 102);
  });

  test("never outlasts what the node said, and is over once as much time has passed", () => {
    fc.assert(
      fc.property(ms, ms, ms, fc.double({ min: 0, max: 0.5, noNaN: true }), (elapsed, left, leaseMs, drift) => {
        const usable = nodeRemainingMs({ elapsedMs: elapsed, remainingMs: left, leaseMs }, drift);
        expect(usable).toBeLessThan(left - elapsed);
        expect(nodeRemainingMs({ elapsedMs: Infinity, remainingMs: left, leaseMs }, drift)).toBe(-Infinity);
      }),
    );
  });

  // The holder's clock may run slow by the drift while the node's runs fast: measured on the node's, it must not be late.
  test("ends before the node's key does, however far apart the two clocks run within the drift", () => {
    fc.assert(
      fc.property(
        fc.integer({ min: 10, max: 365 * 86_400_000 }),
        fc.double({ min: -1, max: 1, noNaN: true }),
        (leaseMs, skew) => {
          const usableByClient = nodeRemainingMs({ elapsedMs: 0, remainingMs: leaseMs, leaseMs }, 0.01);
          const usableByNode = usableByClient * (1 + 0.01 * skew);
          expect(usableByNode).toBeLessThan(leaseMs - 1);
        },
      ),
    );
  });
});

describe("majority() and quorumRemainingMs()", () => {
  test("a majority is more than half", () => {
    expect([1, 2, 3, 4, 5, 6, 7].map(majority)).toEqual([1, 2, 2, 3, 3, 4, 4]);
  });

  test("the q-th largest is what at least q nodes keep", () => {
    expect(quorumRemainingMs([10, 30, 20], 2)).toBe(20);
    expect(quorumRemainingMs([-5, 30, 20], 3)).toBe(-5);
    fc.assert(
      fc.property(fc.array(fc.integer(), { minLength: 1 }), fc.nat(), (perNode, n) => {
        const quorum = 1 + (n % perNode.length);
        const result = quorumRemainingMs(perNode, quorum);
        expect(perNode.filter((left) => left >= result).length).toBeGreaterThanOrEqual(quorum);
        expect(perNode.filter((left) => left > result).length).toBeLessThan(quorum);
      }),
    );
  });

  test("too few nodes keep nothing, and the list is left as it was", () => {
    expect(quorumRemainingMs([], 1)).toBe(-Infinity);
    expect(quorumRemainingMs([100], 2)).toBe(-Infinity);
    const perNode = [1, 3, 2];
    quorumRemainingMs(perNode, 2);
    expect(perNode).toEqual([1, 3, 2]);
  });
});

describe("estimateMs()", () => {
  test("is a second before the first answer, then 3 times the first one", () => {
    expect(estimateMs(unknownRoundTrip)).toBe(1_000);
    expect(estimateMs(sampled(unknownRoundTrip, 40))).toBe(40 + 4 * 20);
  });

  test("follows RFC 6298", () => {
    const second = sampled(sampled(unknownRoundTrip, 100), 60);
    expect(second).toEqual({ smoothedMs: 95, variationMs: 47.5, backOff: 1 / 4 });
    expect(estimateMs(second)).toBe(95 + 4 * 47.5);
  });

  test("comes down to the round trip as the answers grow steady", () => {
    let steady = sampled(unknownRoundTrip, 500);
    for (let i = 0; i < 100; i += 1) steady = sampled(steady, 20);
    expect(estimateMs(steady)).toBeCloseTo(20, 1);
  });

  test("doubles with each time-out but the first two, to far beyond any lease's quarter, and an answer ends that", () => {
    const once = sampled(unknownRoundTrip, 40);
    let silent = once;
    for (const times of [1, 1, 2, 4, 8, 16, 32]) {
      silent = timedOut(silent);
      expect(estimateMs(silent)).toBe(times * estimateMs(once));
    }
    for (let i = 0; i < 2_000; i += 1) silent = timedOut(silent);
    expect(estimateMs(silent)).toBe(2 ** 20 * estimateMs(once));
    expect(estimateMs(sampled(silent, 40))).toBeLessThanOrEqual(estimateMs(once));
  });
});

test("quorumTrip() is that of the q-th fastest node, wherever it stands; one that has never answered is slow", () => {
  const [fast, middle, slow] = [1, 20, 900].map((ms) => sampled(unknownRoundTrip, ms)) as [
    RoundTrip,
    RoundTrip,
    RoundTrip,
  ];
  const nodes = [slow, fast, unknownRoundTrip, middle].map((trip) => ({ trip }));
  expect([1, 2, 3, 4].map((quorum) => quorumTrip(nodes, quorum))).toEqual([fast, middle, unknownRoundTrip, slow]);
});

describe("nodeTimeoutMs() and flightMs()", () => {
  test("a node is waited for as long as its answers take, within a quarter of the lease", () => {
    const known = sampled(unknownRoundTrip, 200);
    expect(nodeTimeoutMs(known, 60_000, 250)).toBe(600);
    expect(nodeTimeoutMs(known, 2_000, 250)).toBe(500);
    expect(nodeTimeoutMs(unknownRoundTrip, 60_000, 250)).toBe(1_000);
  });

  test("a node is given the floor, but never more than the lease", () => {
    const fast = sampled(unknownRoundTrip, 1);
    expect(nodeTimeoutMs(fast, 60_000, 250)).toBe(260);
    expect(nodeTimeoutMs(fast, 100, 250)).toBe(100);
  });

  test("a node whose answers always take as long is given the floor on top, within a quarter of the lease", () => {
    const steady = { ...unknownRoundTrip, smoothedMs: 240 };
    expect(nodeTimeoutMs(steady, 60_000, 250)).toBe(490);
    expect(nodeTimeoutMs(steady, 1_600, 250)).toBe(400);
    expect(nodeTimeoutMs(steady, 400, 250)).toBe(250);
  });

  test("the flight allowance has no floor, and is a quarter of the lease at most", () => {
    const fast = sampled(unknownRoundTrip, 1);
    expect(flightMs(fast, 60_000)).toBe(3);
    fc.assert(
      fc.property(trip, ms, (trip, leaseMs) => {
        expect(flightMs(trip, leaseMs)).toBeLessThanOrEqual(leaseMs / 4);
      }),
    );
  });
});

describe("the least useful lease", () => {
  test("less than a tenth of a lease is too short", () => {
    expect(isTooShort(999, 10_000)).toBe(true);
    expect(isTooShort(1_000, 10_000)).toBe(false);
    expect(isTooShort(-1, 10)).toBe(true);
  });

  test("three round trips fit into the least useful lease", () => {
    expect(leastUsefulLeaseMs(sampled(unknownRoundTrip, 100), 0.01)).toBe(Math.ceil(900 / 0.99));
  });
});

test("tombstoneMs() is two leases, and two minutes at least", () => {
  expect(tombstoneMs(10)).toBe(120_000);
  expect(tombstoneMs(60_000)).toBe(120_000);
  expect(tombstoneMs(60_001)).toBe(120_002);
});
