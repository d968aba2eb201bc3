/**
 * A queue on a real Redis, by TCP and by HTTP, and the hand of fate: leases that end and times that have passed, without
 * waiting for either.
 *
 * @module
 */
import { Redis as UpstashRedis } from "@upstash/redis";
import type { Redis } from "ioredis";
import { type CommandClient, createLock, type Lease } from "leasehold";
import { ioredisClient } from "leasehold/ioredis";
import { restClient } from "leasehold/rest";
import { upstashClient } from "leasehold/upstash";
import { afterAll, beforeAll, beforeEach, expect } from "vitest";
import { taskLockName } from "../../../examples/task-coordinator/keys.ts";
import { openQueue, type Queue } from "../../../examples/task-coordinator/queue.ts";
import { type Run, startRun } from "../../../examples/task-coordinator/run.ts";
import { type RunningRestRedis, startRestRedis } from "../../support/redis.ts";

export const leaseMs = 60_000;

export type Transport = "TCP" | "HTTP" | "@upstash/redis";

/** Starts a Redis for the tests of the suite that this is called in, and empties it before each. */
export function useLab(): Lab {
  const lab = new Lab();
  beforeAll(() => lab.start());
  beforeEach(() => lab.redis.flushall());
  afterAll(() => lab.stop());
  return lab;
}

export class Lab {
  #server: RunningRestRedis | undefined;

  async start(): Promise<void> {
    this.#server = await startRestRedis();
  }

  async stop(): Promise<void> {
    await this.#server?.stop();
  }

  get server(): RunningRestRedis {
    return this.#server ?? expect.fail("Redis has not been started");
  }

  /** For looking, and for setting what a test needs to have happened. */
  get redis(): Redis {
    return this.server.connection;
  }

  client(transport: Transport = "TCP"): CommandClient {
    if (transport === "TCP") return ioredisClient(this.redis);
    return transport === "HTTP" ? restClient(this.server) : upstashClient(new UpstashRedis(this.server));
  }

  queue(transport: Transport = "TCP"): Queue {
    return openQueue(this.client(transport), "jobs");
  }
}

/** Takes the lock of a task. */
export function lockTask(queue: Queue, id: string): Promise<Lease> {
  return createLock(queue.client, { leaseMs, waitMs: 0 }).acquire(taskLockName(queue.name, id));
}

/** An attempt and the lease that it runs under. */
export interface Begun {
  readonly id: string;
  readonly lease: Lease;
  readonly run: Run;
}

/** Claims the next task, locks it and starts it. */
export async function begin(queue: Queue, worker = "worker"): Promise<Begun> {
  const id = (await queue.claim()) ?? expect.fail("there is no task");
  const lease = await lockTask(queue, id);
  const run = (await startRun(queue, id, lease, { leaseMs, worker })) ?? expect.fail(`${id} was not started`);
  return { id, lease, run };
}

/** Ends a lease, as time does when its worker is frozen or dead. */
export async function endLease(queue: Queue, id: string): Promise<void> {
  await queue.client.execute(["DEL", queue.keys.taskLock(id)]);
}

/** Sets a moment of a task back by so many ms. */
export async function age(queue: Queue, id: string, field: "renewedAt" | "seenAt", ms: number): Promise<void> {
  await queue.client.execute(["HINCRBY", queue.keys.task(id), field, -ms]);
}

/** Makes every delayed task due. */
export async function passDelays({ client, keys }: Queue): Promise<void> {
  for (const member of [await client.execute(["ZRANGE", keys.delayed, 0, -1])].flat()) {
    await client.execute(["ZADD", keys.delayed, 0, String(member)]);
  }
}

/** One field of a task, as it is stored. */
export async function fieldOf({ client, keys }: Queue, id: string, field: string): Promise<unknown> {
  return client.execute(["HGET", keys.task(id), field]);
}

/** The counters. */
export async function totalsOf({ client, keys }: Queue): Promise<Record<string, number>> {
  const flat = [await client.execute(["HGETALL", keys.totals])].flat().map(String);
  return Object.fromEntries(flat.flatMap((name, at) => (at % 2 ? [] : [[name, Number(flat[at + 1])]])));
}

/** Where a task's id stands, by list. */
export async function placesOf({ client, keys }: Queue, id: string): Promise<string[]> {
  const { ready, delayed, claimed, completed, failed } = keys;
  const lists = [...ready, claimed, completed, failed].map((key) => client.execute(["LRANGE", key, 0, -1]));
  const found = await Promise.all([...lists, client.execute(["ZRANGE", delayed, 0, -1])]);
  const names = ["ready", "ready", "ready", "claimed", "completed", "failed", "delayed"];
  return found.flatMap((members, at) => {
    const here = [members].flat().filter((member) => String(member).replace(/^\d:/, "") === id);
    return here.map(() => names[at] ?? "");
  });
}
