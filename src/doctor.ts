/**
 * doctor: whether the Redis that a lock rests on can be trusted with it. Reads only.
 *
 * @module
 */
import type { CommandClient } from "./command.ts";
import { clockFindings } from "./doctor/clocks.ts";
import { type Facts, factsOf } from "./doctor/facts.ts";
import type { Finding, Severity } from "./doctor/findings.ts";
import { independenceFindings, roundTripFinding } from "./doctor/fleet.ts";
import { serverFindings } from "./doctor/server.ts";
import { type Environment, systemEnvironment } from "./environment.ts";
import { lockKeys } from "./keys.ts";
import { createNodes } from "./node.ts";
import { checkDriftFactor, checkLeaseMs, checkPrefix, checkQuorum } from "./validate.ts";
import { defaultDriftFactor, majority, nodeRemainingMs } from "./validity.ts";

export type { Finding, FindingCode, Severity } from "./doctor/findings.ts";

/** Settings of a diagnosis: those of the lock that it is about. */
export interface DoctorOptions {
  /** @default {"lock"} */
  readonly prefix?: string | undefined;
  /** @default {10_000} */
  readonly leaseMs?: number | undefined;
  /** @default {a majority: floor(N / 2) + 1} */
  readonly quorum?: number | undefined;
  /** @default {0.01} */
  readonly driftFactor?: number | undefined;
}

/** What one Redis told, as figures. */
export interface NodeHealth {
  readonly label: string;
  readonly answered: boolean;
  readonly version?: string;
  readonly role?: string;
  /** Smoothed over several, in ms. */
  readonly roundTripMs?: number;
  /** By how much its clock is ahead of this machine's, in ms, and how far off that may be. */
  readonly clockAheadMs?: number;
  readonly clockErrorMs?: number;
}

/** What was found, the worst first. */
export interface Diagnosis {
  /** Whether a quorum answered. */
  readonly reachable: boolean;
  readonly findings: readonly Finding[];
  readonly nodes: readonly NodeHealth[];
}

const order: readonly Severity[] = ["error", "warning", "unknown", "ok"];

/**
 * Examines every node and what they come to together: clocks, versions, scripts, roles and replicas, eviction, persistence,
 * round trips, and whether they are independent. It writes nothing. What a server does not let itself be asked is
 * "unknown".
 *
 * Not promised: that what is in order now stays so. A clock is compared at one moment, so how fast it runs is not seen.
 *
 * @throws LockError "config" for bad arguments; never for what a Redis or a network does
 *
 * @example
 * ```ts
 * import { doctor } from "leasehold";
 * import { memoryClient } from "leasehold/memory";
 *
 * const { findings } = await doctor([memoryClient({ label: "local" })]);
 * for (const { severity, finding, remedy } of findings) {
 *   if (severity === "error") console.log(finding, remedy);
 * }
 * ```
 */
export async function doctor(
  clients: CommandClient | readonly CommandClient[],
  options?: DoctorOptions,
  environment?: Environment,
): Promise<Diagnosis> {
  const nodes = createNodes(clients);
  const least = majority(nodes.length);
  const { prefix = "lock", leaseMs = 10_000, quorum = least, driftFactor = defaultDriftFactor } = options ?? {};
  checkQuorum(quorum, least, nodes.length);
  checkLeaseMs(leaseMs);
  checkDriftFactor(driftFactor);
  const keys = lockKeys(checkPrefix(prefix), "leasehold:doctor");
  const env = environment ?? systemEnvironment();
  const facts = await Promise.all(nodes.map((node) => factsOf(env, node, keys)));
  const findings = [
    ...facts.flatMap(serverFindings),
    ...clockFindings(facts, -nodeRemainingMs({ leaseMs, remainingMs: 0, elapsedMs: 0 }, driftFactor)), // what is taken off
    ...independenceFindings(facts),
    roundTripFinding(facts, { quorum, leaseMs, driftFactor }),
  ];
  findings.sort((a, b) => order.indexOf(a.severity) - order.indexOf(b.severity));
  const reachable = facts.filter(({ silence }) => silence === undefined).length >= quorum;
  return { reachable, findings, nodes: facts.map(healthOf) };
}

function healthOf({ label, silence, trip, clock, info }: Facts): NodeHealth {
  if (silence !== undefined) return { label, answered: false };
  const version = info.get("redis_version");
  const role = info.get("role");
  return {
    label,
    answered: true,
    ...(version === undefined ? {} : { version }),
    ...(role === undefined ? {} : { role: role === "slave" ? "replica" : role === "master" ? "primary" : role }),
    ...(trip.smoothedMs === undefined ? {} : { roundTripMs: trip.smoothedMs }),
    ...(clock && { clockAheadMs: clock.offsetMs, clockErrorMs: clock.errorMs }),
  };
}
