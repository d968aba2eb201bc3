/**
 * The arithmetic of leases: how long a holder may believe, and how long to wait for a node. Pure functions, all in ms.
 *
 * @module
 */

/** By how much two clocks may disagree about a duration: crystals, slewing and smearing stay 8 times below it. */
export const defaultDriftFactor = 0.01;

// A cold HTTPS call takes about three round trips; a second covers it on any continent.
const firstEstimateMs = 1_000;

/** A node's word that a token holds its key: what was left of the lease when the request was answered. */
export interface Bound {
  /** Since just before the request was sent: so the whole round trip is charged, and tries hidden below with it. */
  readonly elapsedMs: number;
  /** The key's remaining life by the node's clock, as it replied. */
  readonly remainingMs: number;
  /** The lease that was asked for. */
  readonly leaseMs: number;
}

/**
 * What is left of a lease on one node, by this client's clock; may be negative.
 *
 *     remaining - elapsed - (ceil(drift × max(lease, remaining)) + 2)
 *
 * The 2 covers the rounding of two clocks to whole ms. Redlock's validity, per node:
 * https://redis.io/docs/latest/develop/clients/patterns/distributed-locks/.
 */
export function nodeRemainingMs(bound: Bound, driftFactor: number): number {
  const { remainingMs, elapsedMs, leaseMs } = bound;
  return remainingMs - elapsedMs - Math.ceil(driftFactor * Math.max(leaseMs, remainingMs)) - 2;
}

/** The least majority of n nodes. */
export function majority(n: number): number {
  return Math.floor(n / 2) + 1;
}

/**
 * The q-th largest: until when at least q of the nodes keep the lease. Each value is a bound of its own, so any mix is
 * sound.
 */
export function quorumRemainingMs(perNode: readonly number[], quorum: number): number {
  return [...perNode].sort((a, b) => b - a)[quorum - 1] ?? -Infinity;
}

/** What is known of the round trip to one node. */
export interface RoundTrip {
  /** Absent before the first sample, and so is the variation. */
  readonly smoothedMs?: number;
  readonly variationMs?: number;
  /** Doubles with each time-out in a row, so that a node that became slower than its estimate is heard again. */
  readonly backOff: number;
}

// Below 1 it changes nothing: a call's second try and its roll-back wait for a silent node no longer than its first.
const noBackOff = 0.25;

/** Before the first sample. */
export const unknownRoundTrip: RoundTrip = { backOff: noBackOff };

/** One more answer, which took `ms`. RFC 6298, section 2. */
export function sampled(trip: RoundTrip, ms: number): RoundTrip {
  const { smoothedMs = ms, variationMs = ms / 1.5 } = trip; // so that the first one varies by its half
  const off = ms - smoothedMs;
  return {
    smoothedMs: smoothedMs + off / 8,
    variationMs: variationMs + (Math.abs(off) - variationMs) / 4,
    backOff: noBackOff,
  };
}

/**
 * No answer within the time-out. RFC 6298, section 5.5. The lease bounds every time-out; a small bound here would leave a
 * node unheard for ever that went from 1 ms to 300 ms.
 */
export function timedOut(trip: RoundTrip): RoundTrip {
  return { ...trip, backOff: Math.min(trip.backOff * 2, 2 ** 20) };
}

/** How long an answer may take: smoothed + 4 × variation (RFC 6298), or a second while nothing is known. */
export function estimateMs({ smoothedMs = firstEstimateMs, variationMs = 0, backOff }: RoundTrip): number {
  return Math.max(1, backOff) * (smoothedMs + 4 * variationMs);
}

/** The round trip that a quorum takes: of the q-th fastest node, so that neither a slow nor a dead one counts. */
export function quorumTrip(nodes: readonly { readonly trip: RoundTrip }[], quorum: number): RoundTrip {
  const trips = nodes.map(({ trip }) => trip).sort((a, b) => estimateMs(a) - estimateMs(b));
  return trips[quorum - 1] ?? unknownRoundTrip;
}

/**
 * How long to wait for a node. A pause of this process, for as long as the floor, must not look like a silent node, however
 * long its answers take. At most a quarter of the lease, so that the slowest answer that counts leaves three quarters;
 * but never less than the floor.
 *
 * The floor is added to the smoothed round trip, not only a bound below: steady answers bring the estimate down to the
 * round trip itself, and 250 ms for a node that always takes 240 would make a time-out of every pause above 10 ms. In
 * steps of 10 ms where no bound cuts it, as timers of one length share a list on Node: with 64 requests under way that
 * saves each 5 µs of CPU, measured.
 */
export function nodeTimeoutMs(trip: RoundTrip, leaseMs: number, floorMs: number): number {
  const patientMs = Math.ceil(Math.max(estimateMs(trip), (trip.smoothedMs ?? 0) + floorMs) / 10) * 10;
  return Math.min(leaseMs, Math.max(floorMs, Math.min(patientMs, leaseMs / 4)));
}

/** The flight allowance of a lease: the time that the holder's next write may take to land. Taken off `remaining()`. */
export function flightMs(trip: RoundTrip, leaseMs: number): number {
  return Math.min(estimateMs(trip), leaseMs / 4);
}

/** Less than this part of a lease left at its grant is not worth having: it is rolled back. */
export function isTooShort(usableMs: number, leaseMs: number): boolean {
  return usableMs < 0.1 * leaseMs;
}

/** One worst acquire, one renewal and one last flight must fit: the least lease that is of use at this round trip. */
export function leastUsefulLeaseMs(trip: RoundTrip, driftFactor: number): number {
  return Math.ceil((3 * estimateMs(trip)) / (1 - driftFactor));
}

/**
 * How long a tombstone must stand: past any request that may still be under way. Two minutes outlast the read time-outs
 * of common proxies and every SDK's retries; a later copy strands a lock for a lease at most, and nobody believes in it.
 */
export function tombstoneMs(leaseMs: number): number {
  return Math.max(2 * leaseMs, 120_000);
}
