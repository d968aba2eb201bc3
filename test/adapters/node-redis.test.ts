import { createClient, createClientPool, RESP_TYPES } from "redis";
import { createClient as createClient5 } from "redis-5";
import { nodeRedisClient } from "../../adapters/node-redis.ts";
import { clientContract } from "../contract/client.ts";
import { describeRedis, startRedis } from "../support/redis.ts";

const password = "redis-password-that-must-not-be-logged";

const clients = {
  "redis 6": (url: string) => createClient({ url }),
  "redis 6 on RESP2": (url: string) => createClient({ url, RESP: 2 }),
  "redis 6 with a type mapping": (url: string) =>
    createClient({
      url,
      commandOptions: { typeMapping: { [RESP_TYPES.NUMBER]: String, [RESP_TYPES.BLOB_STRING]: Buffer } },
    }),
  "a pool of redis 6": (url: string) => createClientPool({ url }),
  "redis 5": (url: string) => createClient5({ url, RESP: 2 }),
  "redis 5 on RESP3": (url: string) => createClient5({ url, RESP: 3 }),
};

describeRedis("node-redis.ts", () => {
  for (const [name, create] of Object.entries(clients)) {
    clientContract(`nodeRedisClient() over ${name}`, async () => {
      const server = await startRedis({ args: ["--requirepass", password] });
      const redis = create(`redis://:${password}@127.0.0.1:${server.port}`);
      redis.on("error", () => {});
      await redis.connect();
      const close = async (): Promise<void> => {
        redis.destroy();
        await server.stop();
      };
      return { client: nodeRedisClient(redis), pid: server.pid, secrets: [password], close };
    });
  }
});
