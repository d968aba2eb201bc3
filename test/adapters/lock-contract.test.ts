import { Redis as Upstash } from "@upstash/redis";
import { Redis } from "ioredis";
import { createClient } from "redis";
import { ioredisClient } from "../../adapters/ioredis.ts";
import { memoryClient } from "../../adapters/memory/index.ts";
import { nodeRedisClient } from "../../adapters/node-redis.ts";
import { restClient } from "../../adapters/rest.ts";
import { upstashClient } from "../../adapters/upstash.ts";
import type { CommandClient } from "../../src/command.ts";
import { createLock } from "../../src/lock.ts";
import { type LockUnderTest, lockContract } from "../contract/lock.ts";
import { startBunRedis } from "../support/bun-redis.ts";
import { describeRedis, startRedis, startRestServer } from "../support/redis.ts";
import { virtualEnvironment } from "../support/virtual-clock.ts";

lockContract("createLock() over memoryClient()", async () => {
  const env = virtualEnvironment();
  const client = memoryClient({}, env);
  return { createLock: (options) => createLock(client, options, env), clients: [client], env, close: async () => {} };
});

/** A lock over a client of a real Redis; `closing` ends the client. */
async function overRedis(
  connect: (port: number) => Promise<{ client: CommandClient; closing: () => unknown }>,
): Promise<LockUnderTest> {
  const server = await startRedis();
  const { client, closing } = await connect(server.port);
  const close = async (): Promise<void> => {
    await closing();
    await server.stop();
  };
  return { createLock: (options) => createLock(client, options), clients: [client], close };
}

/** A REST server in front of a real Redis. */
async function restOver(port: number) {
  const redis = new Redis(port);
  const server = await startRestServer(ioredisClient(redis));
  const closing = async (): Promise<void> => {
    await server.stop();
    redis.disconnect();
  };
  return { url: server.url, token: server.token, closing };
}

describeRedis("createLock()", () => {
  lockContract("over ioredis 6", () =>
    overRedis(async (port) => {
      const redis = new Redis(port);
      return { client: ioredisClient(redis), closing: () => redis.disconnect() };
    }),
  );

  lockContract("over redis 6", () =>
    overRedis(async (port) => {
      const redis = createClient({ url: `redis://127.0.0.1:${port}` });
      redis.on("error", () => {});
      await redis.connect();
      return { client: nodeRedisClient(redis), closing: () => redis.destroy() };
    }),
  );

  lockContract("over the RedisClient of Bun", () =>
    overRedis(async (port) => {
      const bun = await startBunRedis(`redis://127.0.0.1:${port}`);
      return { client: bun.client, closing: bun.stop };
    }),
  );

  lockContract("over restClient()", () =>
    overRedis(async (port) => {
      const { url, token, closing } = await restOver(port);
      return { client: restClient({ url, token }), closing };
    }),
  );

  lockContract("over restClient() that batches", () =>
    overRedis(async (port) => {
      const { url, token, closing } = await restOver(port);
      return { client: restClient({ url, token, batch: true }), closing };
    }),
  );

  lockContract("over @upstash/redis in its default settings", () =>
    overRedis(async (port) => {
      const { url, token, closing } = await restOver(port);
      return { client: upstashClient(new Upstash({ url, token })), closing };
    }),
  );
});
