/**
 * Every metric that an observer keeps: what it counts, in which unit, and by what it is told apart.
 *
 * @module
 */

/** By what a measurement is told apart; any metric may also have the "name" of the lock or the cache's key. */
export type Label = "name" | "node" | "result";

/** One metric, named by the conventions of OpenTelemetry. */
export interface Metric {
  readonly name: string;
  readonly type: "counter" | "histogram";
  /** "s" is seconds, "1" a part of a whole; what stands in braces is counted. */
  readonly unit: string;
  readonly help: string;
  readonly labels: readonly Label[];
  /** Of a histogram: the upper bounds. */
  readonly buckets: readonly number[];
  /** The results that are counted from 0. */
  readonly results: readonly string[];
}

const secondsOfTrips = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5];
const secondsOfWork = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 1_800];
const partsOfLease = [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1, 1.5, 2];

/** How a lease ended before its holder let go, as a result. */
export const lossResults = { expired: "expired_mid_work", stolen: "lost", maxHold: "max_hold" } as const;
const failures = ["contended", "timeout", "unavailable", "aborted", "config"];

export const acquisitions: Metric = counter(
  "acquisitions",
  "acquisition",
  "Acquisitions by result, and acquired leases that ended before they were released",
  ["acquired", ...failures, ...Object.values(lossResults)],
);
export const waits: Metric = histogram("wait.duration", "s", "From the call to its result", secondsOfWork, "result");
export const leases: Metric = histogram("lease.duration", "s", "What an acquired lease was good for", secondsOfWork);
export const holds: Metric = histogram("hold.duration", "s", "From the grant to its end", secondsOfWork, "result");
export const uses: Metric = histogram(
  "lease.used_ratio",
  "1",
  "The part of a lease that had passed when it was prolonged or ended, at its largest",
  partsOfLease,
);
export const renewals: Metric = counter("renewals", "renewal", "Renewals and extensions by result", [
  "renewed",
  "extended",
  "unknown",
]);
export const nearMisses: Metric = counter(
  "near_misses",
  "near_miss",
  "Leases that were prolonged or released with less than a fifth left",
);
export const longHolds: Metric = counter("long_holds", "hold", "Tasks that have run for ten leases");
export const votes: Metric = {
  ...counter("node.votes", "vote", "Answers of each Redis by result"),
  labels: ["node", "result"],
};
export const trips: Metric = histogram(
  "node.round_trip.duration",
  "s",
  "Round trips to each Redis that were answered",
  secondsOfTrips,
  "node",
);
export const hits: Metric = counter("cache.hits", "hit", "Reads that a stored value answered", ["fresh", "stale"]);
export const builds: Metric = counter("cache.builds", "build", "Builds by result", ["stored", "unstored", "failed"]);
export const refusedCommits: Metric = counter(
  "cache.refused_commits",
  "commit",
  "Built values that Redis refused, as another build was elected or the entry was invalidated",
  ["gone", "invalidated", "superseded"],
);

/** All of them. */
export const catalogue: readonly Metric[] = [
  ...[acquisitions, waits, leases, holds, uses, renewals, nearMisses, longHolds],
  ...[votes, trips, hits, builds, refusedCommits],
];

function counter(name: string, what: string, help: string, results: readonly string[] = []): Metric {
  const labels: readonly Label[] = results.length ? ["result"] : [];
  return { name: `leasehold.${name}`, type: "counter", unit: `{${what}}`, help, labels, buckets: [], results };
}

function histogram(name: string, unit: string, help: string, buckets: readonly number[], ...labels: Label[]): Metric {
  return { name: `leasehold.${name}`, type: "histogram", unit, help, labels, buckets, results: [] };
}
