import { clientContract } from "../contract/client.ts";
import { startBunRedis } from "../support/bun-redis.ts";
import { describeRedis, startRedis } from "../support/redis.ts";

const password = "redis-password-that-must-not-be-logged";

describeRedis("bun.ts", () => {
  clientContract("bunClient() over the RedisClient of Bun", async () => {
    const server = await startRedis({ args: ["--requirepass", password] });
    const bun = await startBunRedis(`redis://:${password}@127.0.0.1:${server.port}`);
    const close = async (): Promise<void> => {
      await bun.stop();
      await server.stop();
    };
    return { client: bun.client, pid: server.pid, secrets: [password], close };
  });
});
