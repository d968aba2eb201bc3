/**
 * Starts what a test needs to talk to a real Redis Cluster. The caller stops what it started.
 *
 * @module
 */
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { Redis } from "ioredis";
import { freePort, startRedis } from "./redis.ts";

/** A cluster on the loopback interface. */
export interface RunningCluster {
  /** Of one master, which leads to the others. */
  readonly port: number;
  /** Of every master, in the order of their slots. */
  readonly ports: readonly number[];
  /** Ends all masters. Their data is gone. */
  stop(): Promise<void>;
}

/** Starts three masters, each with a third of the slots, and waits until all of them know it. */
export async function startCluster(): Promise<RunningCluster> {
  await using parts = new AsyncDisposableStack();
  const folder = await mkdtemp(join(tmpdir(), "leasehold-cluster-"));
  parts.defer(() => rm(folder, { recursive: true }));
  const masters: Master[] = [];
  for (const first of [0, 5_461, 10_922]) {
    // Its own choice would be its port and 10 000, which is past the last port for many a free one.
    const busPort = await freePort();
    const settings = join(folder, `${busPort}.conf`);
    const { port, stop } = await startRedis({
      args: ["--cluster-enabled", "yes", "--cluster-config-file", settings, "--cluster-port", `${busPort}`],
    });
    parts.defer(stop);
    const redis = new Redis(port, "127.0.0.1");
    parts.defer(() => redis.disconnect());
    await redis.call("CLUSTER", "ADDSLOTSRANGE", first, first === 10_922 ? 16_383 : first + 5_460);
    // Two masters of one epoch would have to settle that among themselves first.
    await redis.call("CLUSTER", "SET-CONFIG-EPOCH", masters.length + 1);
    masters.push({ redis, port, busPort });
  }
  const [first, ...others] = masters;
  for (const { port, busPort } of others) await first?.redis.call("CLUSTER", "MEET", "127.0.0.1", port, busPort);
  for (const { redis } of masters) {
    while (!String(await redis.call("CLUSTER", "INFO")).includes("cluster_state:ok")) await sleep(20);
  }
  const ports = masters.map(({ port }) => port);
  const running = parts.move();
  return { port: ports[0] ?? 0, ports, stop: () => running.disposeAsync() };
}

interface Master {
  readonly redis: Redis;
  readonly port: number;
  readonly busPort: number;
}
