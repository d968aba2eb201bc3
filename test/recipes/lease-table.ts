/**
 * The table "which lease for which round trip", computed by the functions that the locks compute with.
 *
 * @module
 */
import {
  defaultDriftFactor,
  estimateMs,
  flightMs,
  leastUsefulLeaseMs,
  nodeRemainingMs,
  type RoundTrip,
  unknownRoundTrip,
} from "../../src/validity.ts";

const leases = [1_000, 5_000, 10_000, 30_000];
const roundTrips = [1, 20, 80, 300];

/** No option takes less. */
const shortestLeaseMs = 10;

/** A round trip that differs from its mean by 30 % of it on average, as one between regions does. */
export function typicalTrip(ms: number): RoundTrip {
  return { ...unknownRoundTrip, smoothedMs: ms, variationMs: 0.3 * ms };
}

/** What `remaining()` says after an acquire that was as slow as is still usual. */
export function leftMs(trip: RoundTrip, leaseMs: number): number {
  const bound = { elapsedMs: estimateMs(trip), remainingMs: leaseMs, leaseMs };
  return Math.floor(nodeRemainingMs(bound, defaultDriftFactor) - flightMs(trip, leaseMs));
}

/** The rows of the table in Markdown, its head included, with nothing that only lines up its columns. */
export function leaseTable(): string[] {
  const row = (cells: readonly (string | number)[]): string => `| ${cells.join(" | ")} |`;
  const heads = ["round trip", "least useful lease", ...leases.map((ms) => `left of ${ms / 1_000} s`)];
  return [
    row(heads),
    row(heads.map(() => "---:")),
    ...roundTrips.map((ms) => {
      const trip = typicalTrip(ms);
      const least = Math.max(shortestLeaseMs, leastUsefulLeaseMs(trip, defaultDriftFactor));
      return row([ms, least, ...leases.map((lease) => (lease < least ? "too short" : leftMs(trip, lease)))]);
    }),
  ];
}
