import { Redis } from "@upstash/redis";
import { Redis as CloudflareRedis } from "@upstash/redis/cloudflare";
import { Redis as FastlyRedis } from "@upstash/redis/fastly";
import { Redis as TcpRedis } from "ioredis";
import { ioredisClient } from "../../adapters/ioredis.ts";
import { upstashClient } from "../../adapters/upstash.ts";
import { clientContract } from "../contract/client.ts";
import { describeRedis, startRedis, startRestServer } from "../support/redis.ts";

type Settings = { readonly url: string; readonly token: string };

// In its default settings the instance parses values: strings that look like JSON do not come back as they were.
const parsing = {
  "default settings": (settings: Settings) => new Redis(settings),
  "the Cloudflare entry": (settings: Settings) => new CloudflareRedis(settings),
  "the Fastly entry": (settings: Settings) => new FastlyRedis({ ...settings, backend: "redis" }),
  "neither retries nor encoding nor pipelining": (settings: Settings) =>
    new Redis({ ...settings, retry: { retries: 0 }, responseEncoding: false, enableAutoPipelining: false }),
};
const plain = {
  "automaticDeserialization off": (settings: Settings) => new Redis({ ...settings, automaticDeserialization: false }),
};

describeRedis("upstash.ts", () => {
  for (const [name, create] of Object.entries({ ...parsing, ...plain })) {
    clientContract(
      `upstashClient() over ${name}`,
      async () => {
        const server = await startRedis();
        const tcp = new TcpRedis(server.port);
        const rest = await startRestServer(ioredisClient(tcp), { token: "rest-token-that-must-not-be-logged" });
        const close = async (): Promise<void> => {
          await rest.stop();
          tcp.disconnect();
          await server.stop();
        };
        return { client: upstashClient(create(rest)), pid: server.pid, secrets: [rest.token], close };
      },
      { parsesValues: name in parsing },
    );
  }
});
