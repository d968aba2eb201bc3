import { Redis } from "ioredis";
import { Redis as Redis5 } from "ioredis-5";
import { ioredisClient } from "../../adapters/ioredis.ts";
import { type ClientUnderTest, clientContract } from "../contract/client.ts";
import { describeRedis, startRedis } from "../support/redis.ts";

const password = "redis-password-that-must-not-be-logged";

const instances = {
  "ioredis 6": (port: number) => new Redis({ port, password }),
  "ioredis 6 on RESP2": (port: number) => new Redis({ port, password, protocol: 2 }),
  "ioredis 6 with automatic pipelining": (port: number) => new Redis({ port, password, enableAutoPipelining: true }),
  "ioredis 6 with a keyPrefix": (port: number) => new Redis({ port, password, keyPrefix: "app:" }),
  "ioredis 5": (port: number) => new Redis5({ port, password }),
  "ioredis 5 with a keyPrefix": (port: number) => new Redis5({ port, password, keyPrefix: "app:" }),
};

describeRedis("ioredis.ts", () => {
  for (const [name, connect] of Object.entries(instances)) {
    const build = async (): Promise<ClientUnderTest> => {
      const server = await startRedis({ args: ["--requirepass", password] });
      const redis = connect(server.port);
      const close = async (): Promise<void> => {
        redis.disconnect();
        await server.stop();
      };
      return { client: ioredisClient(redis), pid: server.pid, secrets: [password], close };
    };
    // Under a keyPrefix a script sees other keys than it was given: test/reports has scripts for that (E06).
    clientContract(`ioredisClient() over ${name}`, build, { onlyOwnScripts: name.includes("keyPrefix") });
  }
});
