/**
 * What the nodes come to together: whether they are independent, and how far they are. Pure functions.
 *
 * @module
 */
import { estimateMs, leastUsefulLeaseMs, quorumTrip, type RoundTrip } from "../validity.ts";
import type { Facts } from "./facts.ts";
import { about, type Finding } from "./findings.ts";

/** Two nodes that are one server, or one and its replica, are a quorum in name only. */
export function independenceFindings(facts: readonly Facts[]): Finding[] {
  if (facts.length < 2) return [];
  const say = about("independence");
  const reachable = facts.filter(({ silence }) => silence === undefined);
  const mute = reachable.filter(({ info }) => !info.get("run_id")).map(({ label }) => label);
  const findings = reachable.flatMap((one, at) =>
    reachable.slice(at + 1).flatMap((other) => pairFinding(one, other) ?? []),
  );
  if (mute.length > 0) {
    const meaning = "Two that are one server would be a quorum in name only";
    findings.push(
      say("unknown", `Not told by ${mute.join(", ")}`, meaning, "Make sure that they are servers of their own"),
    );
  }
  if (findings.length > 0) return findings;
  return [say("ok", `${reachable.length} servers, each with a run id of its own`, "A quorum of them is one")];
}

function pairFinding(one: Facts, other: Facts): Finding | undefined {
  const say = about("independence");
  const pair = `${one.label} and ${other.label}`;
  const remedy = "Give the lock independent primaries, each of them once";
  const id = one.info.get("run_id");
  if (id && id === other.info.get("run_id")) {
    return say("error", `${pair} are one server`, "Its vote counts twice: a quorum with it is none", remedy);
  }
  // The second id is that of the primary which a replica has taken over from.
  const a = one.info.get("master_replid");
  const b = other.info.get("master_replid");
  if (!(a && b && (a === b || a === other.info.get("master_replid2") || b === one.info.get("master_replid2"))))
    return undefined;
  const meaning = "What one of them grants the other may have granted to someone else, or forget";
  return say("error", `${pair} are a primary and its replica`, meaning, remedy);
}

/** Measured round trips, and the least lease that is of use over them. */
export function roundTripFinding(
  facts: readonly { readonly silence?: string; readonly trip: RoundTrip }[],
  { quorum, leaseMs, driftFactor }: { readonly quorum: number; readonly leaseMs: number; readonly driftFactor: number },
): Finding {
  const say = about("round-trip");
  const answered = facts.filter(({ silence }) => silence === undefined);
  if (answered.length < quorum) {
    const finding = `${answered.length} of ${facts.length} answered, and a holder needs ${quorum}`;
    return say("error", finding, "Nothing can be acquired", "See to those that did not answer");
  }
  const trip = quorumTrip(answered, quorum);
  const leastMs = Math.max(10, leastUsefulLeaseMs(trip, driftFactor));
  const usual = `A quorum usually answers within ${estimateMs(trip).toFixed(1)} ms`;
  const finding = `${usual}: the least useful lease is ${leastMs} ms, and yours is ${leaseMs} ms`;
  if (leaseMs < leastMs)
    return say("error", finding, "A lease is refused as too short", `Take ${4 * leastMs} ms or more`);
  if (leaseMs < 2 * leastMs) {
    return say("warning", finding, "A slow answer or a pause ends the lease early", `Take ${4 * leastMs} ms or more`);
  }
  return say("ok", finding, "It has room for slow answers");
}
