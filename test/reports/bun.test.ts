/** Public reports on Bun's own Redis client. Each test is named by the id of its report. */
import { connect, createServer, type Socket } from "node:net";
import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import { bunClient } from "../../adapters/bun.ts";
import { createCache } from "../../src/cache.ts";
import { createLock } from "../../src/lock.ts";
import { type BunRedis, startBunRedis } from "../support/bun-redis.ts";
import { describeRedis, listen, type RunningRedis, startRedis } from "../support/redis.ts";
import { lockError } from "../support/rejection.ts";
import { virtualEnvironment } from "../support/virtual-clock.ts";

const fresh = { freshMs: 60_000 };

/** What lies between Bun and Redis: it can be led to another Redis, and drop whoever sends a word. */
async function startPath(port: number) {
  const path = { port, dropsOn: "", drops: 0 };
  const open = new Set<Socket>();
  const server = createServer((socket) => {
    const upstream = connect(path.port, "127.0.0.1");
    open.add(socket).add(upstream);
    const end = (): void => {
      for (const one of [socket, upstream]) {
        one.destroy();
        open.delete(one);
      }
    };
    for (const one of [socket, upstream]) one.on("error", end).on("close", end);
    upstream.pipe(socket);
    socket.on("data", (data) => {
      if (path.dropsOn === "" || !data.includes(path.dropsOn)) return void upstream.write(data);
      path.drops += 1;
      end();
    });
  });
  const address = await listen(server);
  const stop = (): void => {
    server.close();
    for (const socket of open) socket.destroy();
  };
  return Object.assign(path, { url: `redis://127.0.0.1:${address}`, open, stop });
}

describeRedis("G07 Bun's RedisClient", () => {
  let redis: RunningRedis;
  let path: Awaited<ReturnType<typeof startPath>>;
  let bun: BunRedis;

  beforeAll(async () => {
    redis = await startRedis();
    path = await startPath(redis.port);
  });
  afterEach(() => bun.stop());
  afterAll(async () => {
    path.stop();
    await redis.stop();
  });

  test("G07 where the server reads a script and closes, an acquire ends in time, and a later one succeeds", async () => {
    bun = await startBunRedis(path.url);
    const lock = createLock(bun.client, { waitMs: 500 });
    path.dropsOn = "EVAL";
    const error = await lockError(lock.acquire("dropped"), "unavailable");
    expect(error.nodes).toMatchObject([{ outcome: "unknown" }]);
    expect(path.drops).toBeGreaterThan(1);
    const cache = createCache(bun.client);
    expect(await cache.getEntry("dropped", fresh, () => 1)).toMatchObject({ value: 1, stored: false, requests: 2 });
    path.dropsOn = "";
    expect(await (await lock.acquire("dropped", { waitMs: 10_000 })).release()).toBe("released");
  });

  test("G07 when Redis was restarted an acquire under way waits for it, and leases of before are gone", async () => {
    bun = await startBunRedis(path.url);
    const lock = createLock(bun.client);
    const lease = await lock.acquire("restarted");
    await redis.stop();
    const waiting = lock.acquire("restarted");
    redis = await startRedis();
    path.port = redis.port;
    expect((await waiting).remaining()).toBeGreaterThan(0);
    expect(await lease.release()).toBe("stolen");
    expect(await createCache(bun.client).getEntry("fresh", fresh, () => 1)).toMatchObject({ value: 1, stored: true });
  });

  test("G07 after an idle time-out a release is unavailable at once and says what to do, and then works", async () => {
    bun = await startBunRedis(path.url, { idleTimeout: 100 });
    const lock = createLock(bun.client);
    const lease = await lock.acquire("idle");
    await expect.poll(() => path.open.size).toBe(0);
    const error = await lockError(lease.release(), "unavailable");
    expect(error.nodes?.[0]?.reason).toContain("call connect(), or make a new client");
    await bun.connect();
    expect(await lease.release()).toBe("released");
  });
});

describe("G07 a client that never answers", () => {
  const silent = bunClient({ send: () => new Promise(() => {}) });

  // A time-out is a second, or the lease where that is less; try, second try and roll-back take one each.
  test.for([
    [100, 0],
    [30_000, 0],
    [1_000, 2_000],
  ] as const)(
    "G07 an acquire for %i ms that stays pending ends within waitMs %i and three time-outs",
    async (given) => {
      const [leaseMs, waitMs] = given;
      const env = virtualEnvironment();
      const { clock } = env;
      const lock = createLock(silent, { leaseMs, waitMs }, env);
      const began = clock.monotonic;
      await lockError(clock.until(lock.acquire("pending")), "unavailable");
      expect(clock.monotonic - began).toBeLessThanOrEqual(waitMs + 3 * Math.min(leaseMs, 1_000));
      await clock.advance(60_000); // its roll-back is tried for a while
      expect(clock.pending).toEqual([]);
    },
  );

  test("G07 a read of a cache builds without Redis after two time-outs, and nothing is left of it", async () => {
    const env = virtualEnvironment();
    const began = env.clock.monotonic;
    const entry = await env.clock.until(createCache(silent, {}, env).getEntry("k", fresh, () => 42));
    expect(entry).toMatchObject({ value: 42, status: "built", stored: false });
    expect(env.clock.monotonic - began).toBe(2 * 2_500);
    expect(env.clock.pending).toEqual([]);
  });
});

test("an object that is no client of Bun's is refused with the factory that fits", () => {
  const method = (): Promise<unknown> => Promise.resolve();
  const refused = (client: object): unknown => {
    try {
      return bunClient(client as never);
    } catch (error) {
      return error;
    }
  };
  for (const [client, remedy] of [
    [{ call: method, sendCommand: method }, "wrap it with ioredisClient"],
    [{ sendCommand: method }, "wrap it with nodeRedisClient"],
    [{ exec: method }, "wrap it with upstashClient"],
    [{ execute: method }, "use it as it is"],
    [{}, "pass Bun.redis or an instance of its RedisClient"],
  ] as const) {
    const message = `Cannot use the client as one of Bun as it has no send method: ${remedy}`;
    expect(refused(client)).toMatchObject({ code: "config", message });
  }
  expect(() => createLock({ send: method } as never)).toThrow("the client as it must be one with execute");
});
