/** The arithmetic against a table that was made by simulation, of round trips with a lognormal spread of 0.35. */
import { describe, expect, test } from "vitest";
import {
  defaultDriftFactor,
  estimateMs,
  leastUsefulLeaseMs,
  majority,
  nodeRemainingMs,
  quorumRemainingMs,
  type RoundTrip,
  unknownRoundTrip,
} from "../../src/validity.ts";
import { textOf } from "../support/text-of.ts";

const sigma = 0.35;
const leases = [1_000, 5_000, 10_000, 30_000];

/**
 * In ms: median round trip, nodes; time to the quorum at p50 and at p99, to the last answer at p99; time-out, least lease; and
 * for each lease what is left after a p99 acquire, and that less a p99 round trip for the last write to land.
 */
const table = `
    1  1      1/2    2   25    78   986/983  4946/4943  9896/9893  29696/29693
    1  3      1/2    3   25    78   986/984  4946/4944  9896/9894  29696/29694
    1  5      1/2    3   25    78   986/984  4946/4944  9896/9894  29696/29694
   20  1    20/45   45   44   135   943/898  4903/4858  9853/9808  29653/29608
   20  3    20/34   52   44   135   954/908  4914/4868  9864/9818  29664/29618
   20  5    20/31   55   44   135   957/912  4917/4872  9867/9822  29667/29622
   80  1   80/180  180  175   532   808/627  4768/4587  9718/9537  29518/29337
   80  3   80/138  207  175   532   850/670  4810/4630  9760/9580  29560/29380
   80  5   80/124  219  175   532   864/684  4824/4644  9774/9594  29574/29394
  300  1  300/676  676  655  1987  312/-364  4272/3596  9222/8546  29022/28346
  300  3  300/517  777  655  1987  471/-205  4431/3755  9381/8705  29181/28505
  300  5  300/465  822  655  1987  523/-153  4483/3807  9433/8757  29233/28557
`;
const rows: number[][] = table
  .trim()
  .split("\n")
  .map((line) => (line.match(/-?\d+/g) ?? []).map(Number));

describe.for(rows)(
  "a round trip of %s ms to %s nodes",
  ([median = 0, nodes = 0, p50 = 0, p99 = 0, all99 = 0, timeoutMs = 0, leastMs = 0, ...cells]) => {
    const quorum = majority(nodes);
    /** A simulated quantile is off by some of the round trip; the table also rounds to whole ms. */
    const near = (value: number, expected: number): void =>
      expect(Math.abs(value - expected), `${value} is near ${expected}`).toBeLessThanOrEqual(1 + 0.01 * median);
    const arrivalMs = (of: number, share: number): number => median * arrival(of, nodes, share);

    test("the quorum is there at the q-th answer, before the last one", () => {
      near(arrivalMs(quorum, 0.5), p50);
      near(arrivalMs(quorum, 0.99), p99);
      near(arrivalMs(nodes, 0.99), all99);
    });

    test("what is left of a lease", () => {
      const flight99 = median * arrival(1, 1, 0.99);
      for (const [index, leaseMs] of leases.entries()) {
        const bound = { elapsedMs: arrivalMs(quorum, 0.99), remainingMs: leaseMs, leaseMs };
        const granted = nodeRemainingMs(bound, defaultDriftFactor);
        const perNode = Array.from({ length: nodes }, (_, node) => (node < quorum ? granted : -Infinity));
        const left = quorumRemainingMs(perNode, quorum);
        const [validMs = Number.NaN, issueMs = Number.NaN] = cells.slice(2 * index);
        near(left, validMs);
        near(left - flight99, issueMs);
      }
    });

    // The table has a least time-out of 25 ms, and 2 ms more in its least lease; node time-outs are longer by now.
    test("the estimate of a round trip, and with it the least useful lease", () => {
      const trip = tripOf(median);
      expect(Math.ceil(Math.max(25, estimateMs(trip)))).toBe(timeoutMs);
      if (median > 1) near(leastUsefulLeaseMs(trip, defaultDriftFactor) + 2, leastMs);
      else expect(leastUsefulLeaseMs(trip, defaultDriftFactor)).toBeLessThan(leastMs);
    });

    test("only a second is too short, and only for 300 ms", () => {
      const tooShort = leases.filter((leaseMs) => leaseMs < leastUsefulLeaseMs(tripOf(median), defaultDriftFactor));
      expect(tooShort).toEqual(median === 300 ? [1_000] : []);
    });
  },
);

test("the page on Redlock says how long one acquire in a hundred takes", () => {
  const page = textOf("docs/redlock.md").replace(/\s+/g, " ");
  const [one, three, five] = [1, 3, 5].map((nodes) => Math.round(20 * arrival(majority(nodes), nodes, 0.99)));
  expect(page).toContain(
    `one acquire in a hundred takes ${one} ms on one node, ${three} ms on three and ${five} ms on five`,
  );
});

/** Mean and mean deviation, as the estimate comes to know them; the mean is taken at the median, as in the table. */
function tripOf(median: number): RoundTrip {
  const deviation = 2 * Math.exp(sigma ** 2 / 2) * (2 * normal(sigma / 2) - 1);
  return { ...unknownRoundTrip, smoothedMs: median, variationMs: median * deviation };
}

/** When the k-th of n answers is there in this share of all cases, in median round trips. */
function arrival(k: number, n: number, share: number): number {
  const z = solve((at) => atLeast(k, n, normal(at)), share);
  return Math.exp(sigma * z);
}

/** The chance of k successes or more in n tries. */
function atLeast(k: number, n: number, chance: number): number {
  if (k <= 0) return 1;
  if (n < k) return 0;
  return chance * atLeast(k - 1, n - 1, chance) + (1 - chance) * atLeast(k, n - 1, chance);
}

/** The normal distribution, by Simpson's rule. */
function normal(z: number): number {
  const steps = 200;
  const density = (x: number): number => Math.exp(-(x ** 2) / 2) / Math.sqrt(2 * Math.PI);
  let sum = density(0) + density(z);
  for (let step = 1; step < steps; step += 1) sum += (step % 2 ? 4 : 2) * density((z * step) / steps);
  return 0.5 + (sum * z) / steps / 3;
}

/** Where a growing function has this value, between -8 and 8. */
function solve(growing: (x: number) => number, value: number): number {
  let [low, high] = [-8, 8];
  for (let round = 0; round < 60; round += 1) {
    const middle = (low + high) / 2;
    if (growing(middle) < value) low = middle;
    else high = middle;
  }
  return low;
}
