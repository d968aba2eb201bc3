/** The same values and fences over TCP and HTTP, through clients that would rather parse them. */
import { Redis as Upstash } from "@upstash/redis";
import { Redis } from "ioredis";
import { createClient } from "redis";
import { afterAll, beforeAll, expect, test } from "vitest";
import { ioredisClient } from "../../adapters/ioredis.ts";
import { nodeRedisClient } from "../../adapters/node-redis.ts";
import { restClient } from "../../adapters/rest.ts";
import { upstashClient } from "../../adapters/upstash.ts";
import { createCache } from "../../src/cache.ts";
import type { CommandClient } from "../../src/command.ts";
import {
  describeRedis,
  type RunningRedis,
  type RunningRestServer,
  startRedis,
  startRestServer,
} from "../support/redis.ts";

const fresh = { freshMs: 60_000 };

const values: unknown[] = [
  ...[null, 0, "", false, -1.5, 2 ** 53, [], {}],
  ...["17", "true", "null", '"q"', '{"a":1}', "\u0000", "\ud800", "日本", "x".repeat(300_000)],
  { nested: [{ list: [null, "1"] }] },
];

describeRedis("27: a guarded cache", () => {
  let server: RunningRedis;
  let rest: RunningRestServer;
  let tcp: Redis;
  let nodeRedis: ReturnType<typeof createClient>;
  beforeAll(async () => {
    server = await startRedis();
    tcp = new Redis(server.port, "127.0.0.1");
    nodeRedis = createClient({ socket: { host: "127.0.0.1", port: server.port } });
    await nodeRedis.connect();
    rest = await startRestServer(ioredisClient(tcp));
  });
  afterAll(async () => {
    await rest.stop();
    nodeRedis.destroy();
    tcp.disconnect();
    await server.stop();
  });

  const clients: [string, () => CommandClient][] = [
    ["ioredis", () => ioredisClient(tcp)],
    ["node-redis", () => nodeRedisClient(nodeRedis)],
    ["restClient", () => restClient(rest)],
    ["@upstash/redis", () => upstashClient(new Upstash({ url: rest.url, token: rest.token }))],
  ];
  test.each(clients)("gives back what was stored, with all digits of its fence, over %s", async (name, client) => {
    const cache = createCache(client());
    for (const [index, value] of values.entries()) {
      const key = `${name} ${index}`;
      const built = await cache.getEntry(key, fresh, ({ fence }) => ({ value, fence: `${fence}` }));
      expect(built).toMatchObject({ status: "built", stored: true, value: { value, fence: `${built.fence}` } });
      expect(built.fence).toBeGreaterThan(2 ** 50);
      const hit = await cache.getEntry(key, fresh, () => ({ value, fence: "" }));
      expect(hit).toEqual({ ...built, status: "hit", requests: 1 });
      expect(await cache.set(key, value, fresh)).toBe(true);
      expect((await cache.peek(key))?.value).toEqual(value);
      await cache.invalidate(key);
      expect(await cache.peek(key)).toBeUndefined();
    }
  });

  test("hit 1 request, rebuild 2 and set 2, over HTTP", async () => {
    const cache = createCache(restClient(rest));
    const cost = async (call: () => Promise<unknown>): Promise<number> => {
      const before = rest.requests.length;
      await call();
      return rest.requests.length - before;
    };
    expect(await cost(() => cache.get("k", fresh, () => 1))).toBe(2);
    expect(await cost(() => cache.get("k", fresh, () => 1))).toBe(1);
    expect(await cost(() => cache.set("k", 2, fresh))).toBe(2);
  });

  test("lets processes on different transports wait for one build", async () => {
    const caches = clients.map(([, client]) => createCache(client()));
    let builds = 0;
    const build = async (): Promise<number> => {
      builds += 1;
      await new Promise((resolve) => setTimeout(resolve, 50));
      return builds;
    };
    const entries = await Promise.all(caches.map((cache) => cache.getEntry("shared", fresh, build)));
    expect(builds).toBe(1);
    expect(new Set(entries.map(({ value, fence }) => `${value} ${fence}`)).size).toBe(1);
    expect(entries.map(({ status }) => status).sort()).toEqual(["built", "waited", "waited", "waited"]);
  });
});
