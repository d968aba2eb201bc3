/** Runs locks: the shipped ones, over the nodes of the world. */
import type { CommandClient } from "../../src/command.ts";
import type { Environment } from "../../src/environment.ts";
import { lockKeys } from "../../src/keys.ts";
import { createLock } from "../../src/lock.ts";
import type { Lock, LockOptions } from "../../src/lock-methods.ts";
import { createRedlock } from "../../src/redlock.ts";
import { FencedResource } from "./fenced-resource.ts";
import { LockChecker } from "./lock-checker.ts";
import { Worker } from "./lock-workload.ts";
import { Network } from "./network.ts";
import { SimNode } from "./node.ts";
import type { LockProfile } from "./profiles.ts";
import { makeTrouble } from "./trouble.ts";
import type { Score, World } from "./world.ts";

export async function runLocks(world: World, profile: LockProfile): Promise<Score> {
  const { timeline, fate, processes, nodes, report } = world;
  const { lengthMs, trouble, leaseMs, waitMs, exclusion } = profile;
  const quorum = profile.quorum ?? Math.floor(nodes.length / 2) + 1;
  const mayForget = profile.quarantineMs ? quorum : trouble.fickleNodes < nodes.length ? trouble.fickleNodes : 0;
  const fickleNodes = exclusion ? mayForget : 0;
  const promises = { exclusion, quorum, fickleNodes, grantsOnce: nodes.length > 1 };
  const checker = new LockChecker(timeline, nodes, promises, report);
  const resource = new FencedResource(timeline, fate, new SimNode("resource", timeline, 1, 0), report);
  const network = new Network(timeline, fate, profile.network, checker);
  const { lock: key } = lockKeys("lock", "job");
  const workers = processes.map((process) => {
    const clients = nodes.map((node) => network.client(process, node));
    const shared = { profile, timeline, fate, checker, resource, report, requests: () => network.sentBy(process) };
    return new Worker(shared, process, (waitUntil) => {
      const options = { leaseMs, waitMs, ...(profile.isWorker ? { waitUntil } : {}) };
      return lockOver(clients, options, profile, process.environment);
    });
  });
  makeTrouble({ timeline, fate, processes, nodes, lengthMs, key, forgot: (node) => checker.forgot(node) }, trouble);

  for (const worker of workers) void worker.run();
  await world.run();
  // I9 and I16: all calls have ended, and all keys are free.
  if (workers.some(({ isBusy }) => isBusy)) report("I16", "a call has never settled");
  const isFree = nodes.every((node) => node.holder(key) === undefined);
  if (!isFree && trouble.serverStepEveryMs === 0) report("I9", "the lock is never free again");
  checker.end();
  return {
    requests: network.sent,
    queued: network.queued,
    progress: checker.progress,
    overlaps: checker.overlaps,
    orphanMs: checker.orphanMs,
  };
}

function lockOver(
  clients: readonly CommandClient[],
  options: LockOptions,
  { quorum, quarantineMs }: LockProfile,
  environment: Environment,
): Lock {
  const [client] = clients;
  if (clients.length === 1 && client !== undefined) return createLock(client, options, environment);
  return createRedlock(clients, { ...options, quorum, quarantineMs }, environment);
}
