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
import { systemClock } from "../../src/clock.ts";
import type { Command, CommandClient } from "../../src/command.ts";
import { type Environment, systemEnvironment } from "../../src/environment.ts";
import {
  describeRedis,
  type RunningRedis,
  type RunningRestServer,
  startRedis,
  startRestServer,
} from "../support/redis.ts";
import { lockError } from "../support/rejection.ts";
import { refused, written } from "./codec-cases.ts";

const fresh = { freshMs: 60_000 };
const none = (): never => expect.fail("the value is there");

const values: unknown[] = [
  ...[null, 0, "", false, -1.5, 2 ** 53, [], {}],
  ...["17", "true", "null", '"q"', '{"a":1}', "\u0000", "\ud800", "日本", "x".repeat(300_000)],
  { nested: [{ list: [null, "1"] }] },
];

describeRedis("a guarded cache", () => {
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
  test.each(clients)("27: gives back what was stored, with all digits of its fence, over %s", async (name, client) => {
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

  test("28: hit 1 request, rebuild 2 and set 2, over HTTP", async () => {
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

  for (const [name, client] of clients) {
    test.each(written)(
      `27: gives back what %s has written, to the builder and to all others, over ${name}`,
      async (codecName, codec, each) => {
        const cache = createCache(client(), { codec });
        for (const [index, value] of each.entries()) {
          const key = `${name} ${codecName} ${index}`;
          expect(await cache.getEntry(key, fresh, () => value)).toMatchObject({ value, status: "built", stored: true });
          expect(await createCache(client(), { codec }).getEntry(key, fresh, none)).toMatchObject({
            value,
            status: "hit",
          });
        }
      },
    );

    test.each(refused)(`27: stores nothing of what %s has no form for, over ${name}`, async (_, codec, value) => {
      const cache = createCache(client(), { codec });
      await lockError(cache.set("refused", value, fresh), "config");
      const error = await lockError(
        cache.get("refused", fresh, () => value),
        "build-failed",
      );
      expect(error.cause).toMatchObject({ code: "config" });
      expect(await cache.peek("refused")).toBeUndefined();
      await cache.invalidate("refused");
    });

    test(`25: finds its scripts again after SCRIPT FLUSH, by one more request at most and the same token, over ${name}`, async () => {
      const { execute, ...settings } = client();
      const sent: Command[] = [];
      const cache = createCache({
        ...settings,
        execute(command, options) {
          sent.push(command);
          return execute(command, options);
        },
      });
      const forget = (): Promise<unknown> => tcp.script("FLUSH");
      await forget();
      const entry = await cache.getEntry(`flushed ${name}`, fresh, forget);
      const verbs = settings.cachesScripts ? ["EVALSHA", "EVAL"] : ["EVAL"];
      expect(entry).toMatchObject({ status: "built", stored: true, requests: 2 * verbs.length });
      expect(sent.map(([verb]) => verb)).toEqual([...verbs, ...verbs]);
      expect(new Set(sent.map(([, , , , token]) => token)).size).toBe(1);
      expect(await cache.getEntry(`flushed ${name}`, fresh, none)).toMatchObject({ status: "hit" });
    });
  }

  test("lets processes on different transports wait for one build", async () => {
    const caches = clients.map(([, client]) => createCache(client()));
    const build = slow(50);
    const entries = await Promise.all(caches.map((cache) => cache.getEntry("shared", fresh, build)));
    expect(build.calls).toBe(1);
    expect(new Set(entries.map(({ value, fence }) => `${value} ${fence}`)).size).toBe(1);
    expect(entries.map(({ status }) => status).sort()).toEqual(["built", "waited", "waited", "waited"]);
  });

  const patient = { ...fresh, leaseMs: 60_000, waitMs: 60_000 };
  /** Never gives a request up: a slow machine, on which 200 are under way at once, is not a Redis that is down. */
  const unhurried: Environment = {
    ...systemEnvironment(),
    clock: { ...systemClock, after: (ms, ...rest) => systemClock.after(ms === 2_500 ? 60_000 : ms, ...rest) },
  };

  test.each(clients)("builds once for 200 readers of a cold key, by 2 requests, over %s", async (name, client) => {
    const cache = createCache(client());
    await cache.set("warm", 0, fresh); // else the server does not know the scripts yet, which costs requests
    const build = slow(100);
    const reads = Array.from({ length: 200 }, () => cache.getEntry(`crowd ${name}`, patient, build));
    const entries = await Promise.all(reads);
    expect(build.calls).toBe(1);
    expect(entries.map(({ value, status }) => `${value} ${status}`).sort()).toEqual([
      "1 built",
      ...Array<string>(199).fill("1 waited"),
    ]);
    expect(entries.reduce((sum, { requests }) => sum + requests, 0)).toBe(2);
  });

  test.each<[string, (parts: DisposableStack) => CommandClient]>([
    [
      "TCP",
      (parts) => {
        const redis = new Redis(server.port, "127.0.0.1");
        parts.defer(() => redis.disconnect());
        return ioredisClient(redis);
      },
    ],
    ["HTTP", () => restClient(rest)],
  ])(
    "builds once for 200 caches with a client each that read a cold key, over %s",
    { timeout: 60_000 },
    async (name, connect) => {
      using parts = new DisposableStack();
      const caches = Array.from({ length: 200 }, () => createCache(connect(parts), {}, unhurried));
      const build = slow(100);
      const entries = await Promise.all(caches.map((cache) => cache.getEntry(`crowds ${name}`, patient, build)));
      expect(build.calls).toBe(1);
      expect(new Set(entries.map(({ value, fence }) => `${value} ${fence}`)).size).toBe(1);
      expect(entries.filter(({ status }) => status === "built")).toHaveLength(1);
    },
  );
});

/** A build of the number of its calls. */
function slow(ms: number): (() => Promise<number>) & { calls: number } {
  const build = Object.assign(
    async () => {
      build.calls += 1;
      await new Promise((resolve) => setTimeout(resolve, ms));
      return build.calls;
    },
    { calls: 0 },
  );
  return build;
}
