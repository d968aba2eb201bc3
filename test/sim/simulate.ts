/** One run: a profile and a seed decide everything that happens in it. */
import type { CommandClient } from "../../src/command.ts";
import type { Environment } from "../../src/environment.ts";
import { lockKeys } from "../../src/keys.ts";
import { createLock } from "../../src/lock.ts";
import type { Lock, LockOptions } from "../../src/lock-methods.ts";
import { createRedlock } from "../../src/redlock.ts";
import { Fate } from "./fate.ts";
import { LockChecker } from "./lock-checker.ts";
import { Worker } from "./lock-workload.ts";
import { Network } from "./network.ts";
import { SimNode } from "./node.ts";
import { Process } from "./process.ts";
import { type LockProfile, profileOf } from "./profiles.ts";
import { Timeline } from "./timeline.ts";
import { makeTrouble } from "./trouble.ts";
import type { Violation } from "./violation.ts";

export interface RunOptions {
  /** Only these faults happen. */
  readonly only?: readonly string[] | undefined;
  /** Fewer processes than the profile has. */
  readonly processes?: number | undefined;
}

export interface Run {
  /** The first that was seen; the run ends there. */
  readonly violation: Violation | undefined;
  readonly faults: readonly string[];
  readonly events: number;
  readonly requests: number;
  readonly acquisitions: number;
  /** Times at which two held at once, where that is not promised. */
  readonly overlaps: number;
  readonly processes: number;
}

/** Whatever is under way when the last cycle begins has ended by then, or never will. */
const settlingMs = 30_000;

/** Ten times what the busiest run needs: something goes round in circles. */
const mostEvents = 1_000_000;

/** Runs one seed of a profile. */
export function simulate(profile: string, seed: number, options: RunOptions = {}): Promise<Run> {
  return simulateLock(profileOf(profile), seed, options);
}

async function simulateLock(profile: LockProfile, seed: number, options: RunOptions): Promise<Run> {
  const timeline = new Timeline();
  const fate = new Fate(seed, options.only);
  let violation: Violation | undefined;
  const report = (invariant: string, what: string): void => {
    violation ??= { invariant, what, atMs: timeline.now };
  };
  const onRejection = (error: unknown): void => report("I0", `nobody waits for ${String(error)}`);
  process.on("unhandledRejection", onRejection);

  const nodes = Array.from({ length: profile.nodes }, (_, place) => {
    const label = `n${place}`;
    return new SimNode(label, timeline, rateOf(fate, profile, label, 1), skewOf(fate, profile, label));
  });
  const quorum = profile.quorum ?? Math.floor(nodes.length / 2) + 1;
  const fickleNodes = profile.exclusion && profile.trouble.fickleNodes < nodes.length ? profile.trouble.fickleNodes : 0;
  const promises = { exclusion: profile.exclusion, quorum, fickleNodes, grantsOnce: nodes.length > 1 };
  const checker = new LockChecker(timeline, nodes, promises, report);
  const network = new Network(timeline, fate, profile.network, checker);
  const processes = Array.from({ length: options.processes ?? profile.processes }, (_, place) => {
    const name = `p${place}`;
    const settings = {
      rate: rateOf(fate, profile, name, -1),
      skewMs: skewOf(fate, profile, name),
      isWorker: profile.isWorker,
    };
    return new Process(name, timeline, fate, settings);
  });
  const workers = processes.map((process) => {
    const cycles = new Map<string, number>();
    const clients = nodes.map((node) =>
      network.client(process, node, ({ token }) => {
        const cycle = cycles.get(token) ?? process.cycle;
        cycles.set(token, cycle);
        return `c${cycle}`;
      }),
    );
    const world = { profile, timeline, fate, checker, report, requests: () => network.sent.get(process) ?? 0 };
    const worker: Worker = new Worker(world, process, (waitUntil) => {
      const { leaseMs, waitMs } = profile;
      const lockOptions = { leaseMs, waitMs, ...(profile.isWorker ? { waitUntil } : {}) };
      return lockOver(clients, lockOptions, profile, process.environment);
    });
    return worker;
  });
  const { lock: key } = lockKeys("lock", "job");
  const { lengthMs, trouble } = profile;
  makeTrouble({ timeline, fate, processes, nodes, lengthMs, key, forgot: (node) => checker.forgot(node) }, trouble);

  for (const worker of workers) void worker.run();
  await timeline.runUntil(
    lengthMs + settlingMs + 3 * profile.leaseMs,
    () => violation !== undefined || timeline.events > mostEvents,
  );
  if (timeline.events > mostEvents) report("I16", `${mostEvents} events, and no end`);
  // I9 and I16: all calls have ended, and all keys are free.
  if (workers.some(({ isBusy }) => isBusy)) report("I16", "a call has never settled");
  if (trouble.serverStepMs === 0 && nodes.some((node) => node.holder(key) !== undefined))
    report("I9", "the lock is never free again");
  checker.end();
  process.off("unhandledRejection", onRejection);
  return {
    violation,
    faults: [...fate.faults],
    events: timeline.events,
    requests: [...network.sent.values()].reduce((sum, count) => sum + count, 0),
    acquisitions: checker.acquisitions,
    overlaps: checker.overlaps,
    processes: processes.length,
  };
}

function lockOver(
  clients: readonly CommandClient[],
  options: LockOptions,
  profile: LockProfile,
  environment: Environment,
): Lock {
  const [client] = clients;
  const { quorum } = profile;
  if (clients.length === 1 && client !== undefined) return createLock(client, options, environment);
  return createRedlock(clients, { ...options, quorum }, environment);
}

/** How fast a clock runs. Both sides together stay within the drift factor of 1 %. */
function rateOf(fate: Fate, { rates }: LockProfile, name: string, end: 1 | -1): number {
  if (rates === "true" || !fate.fault(`rate ${name}`, 1)) return 1;
  return 1 + (rates === "opposed" ? end * 0.0049 : fate.uniform(`rate of ${name}`, -0.0049, 0.0049));
}

/** How far a wall clock is off at the start. */
function skewOf(fate: Fate, { rates }: LockProfile, name: string): number {
  return rates !== "true" && fate.fault(`skew ${name}`, 1) ? fate.uniform(`skew of ${name}`, -500, 500) : 0;
}
