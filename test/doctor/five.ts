/**
 * Five real servers as good as can be, and the troubled ones that may stand in for some of them.
 *
 * @module
 */
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Redis } from "ioredis";
import { type RunningRedis, startRedis } from "../support/redis.ts";

/** A server and a way to it. */
export interface Sound extends RunningRedis {
  readonly url: string;
  readonly redis: Redis;
}

/** Every write is on disk before it is answered. */
export async function startDurable(stack: AsyncDisposableStack, args: readonly string[] = []): Promise<Sound> {
  return startPlain(stack, ["--appendonly", "yes", "--appendfsync", "always", ...args]);
}

/** Nothing is kept. In a folder of its own, as a replica writes what it is sent into a file, and others would read it. */
export async function startPlain(stack: AsyncDisposableStack, args: readonly string[] = []): Promise<Sound> {
  const folder = await mkdtemp(join(tmpdir(), "leasehold-five-"));
  stack.defer(() => rm(folder, { recursive: true, force: true }));
  const server = await startRedis({ args: ["--dir", folder, ...args] });
  stack.defer(() => server.stop());
  const redis = new Redis({ port: server.port, maxRetriesPerRequest: 0 });
  redis.on("error", () => {}); // some are killed on purpose
  stack.defer(() => redis.disconnect());
  return { ...server, url: `redis://127.0.0.1:${server.port}`, redis };
}

/** Five of them. */
export async function startFive(stack: AsyncDisposableStack): Promise<Sound[]> {
  const five: Sound[] = [];
  for (let place = 0; place < 5; place += 1) five.push(await startDurable(stack));
  return five;
}

/** A replica of a server, once it has caught up. */
export async function startReplica(stack: AsyncDisposableStack, of: Sound): Promise<Sound> {
  const replica = await startPlain(stack, ["--replicaof", `127.0.0.1 ${of.port}`, "--repl-diskless-sync-delay", "0"]);
  await of.redis.config("SET", "repl-diskless-sync-delay", "0");
  const online = new RegExp(`port=${replica.port},state=online,offset=\\d+,lag=[01]\\b`);
  await until(async () => online.test(await of.redis.info("replication")));
  return replica;
}

/** Waits for what Redis does in its own time. */
export async function until(isSo: () => Promise<boolean>): Promise<void> {
  for (let tries = 0; tries < 1_000; tries += 1) {
    if (await isSo()) return;
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
  throw new Error("Cannot wait any longer");
}
