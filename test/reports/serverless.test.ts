/**
 * Public reports on Workers, Lambda and the proxies before Redis there: clocks that stand still, limits on connections and
 * requests, freezes, and platform hooks. Each test is named by the id of its report.
 */
import { afterEach, describe, expect, test, vi } from "vitest";
import { memoryClient } from "../../adapters/memory/index.ts";
import { restClient } from "../../adapters/rest.ts";
import { createCache } from "../../src/cache.ts";
import type { Command, CommandClient } from "../../src/command.ts";
import { fencedSet } from "../../src/fence.ts";
import { createLock } from "../../src/lock.ts";
import { createRedlock } from "../../src/redlock.ts";
import { answer, fetchDouble, sixConnections } from "../support/fetch-double.ts";
import { oneRedis } from "../support/one-redis.ts";
import { lockError } from "../support/rejection.ts";
import { lasting, settle, VirtualClock, virtualEnvironment } from "../support/virtual-clock.ts";

describe("F14 a proxy with quirks of its own", () => {
  /** As serverless-redis-http: one content type, pipelines in no order, and "OK" encoded like all else. */
  function proxy() {
    const redis = memoryClient();
    const one = async (command: Command): Promise<unknown> => {
      const reply = await redis.execute(command);
      return { result: typeof reply === "string" ? btoa(reply) : reply };
    };
    return fetchDouble(async ({ url, headers, body }) => {
      if (new Headers(headers).get("content-type") !== "application/json") return answer(400, { error: "Bad Request" });
      if (new Headers(headers).get("authorization") === null) return answer(400, { error: "Missing" });
      const { pathname } = new URL(url);
      if (pathname === "/") return answer(200, await one(JSON.parse(body)));
      if (pathname !== "/pipeline") return answer(404, "no route");
      const commands: Command[] = JSON.parse(body);
      const replies = await Promise.all(commands.reverse().map(one));
      return answer(200, replies.reverse());
    });
  }

  test.each([false, true])("F14 fifty cycles at once succeed, without a transaction (batch: %s)", async (batch) => {
    const { calls, fetch } = proxy();
    const lock = createLock(restClient({ url: "https://proxy.example", token: "t", fetch, batch }));
    const cycles = Array.from({ length: 50 }, (_, at) => lock.withLock(`job:${at}`, (lease) => lease.fence));
    expect((await Promise.all(cycles)).every(Number.isSafeInteger)).toBe(true);
    const paths = new Set(calls.map(({ url }) => new URL(url).pathname));
    expect([...paths]).toEqual([batch ? "/pipeline" : "/"]);
    expect(calls.filter(({ body }) => /MULTI/i.test(body))).toEqual([]);
  });
});

/** A Worker's clock: it reads 0 at global scope, and then the time of the last request or timer, and no other. */
function worker() {
  const time = new VirtualClock();
  const seen = { monotonic: 0, wall: 0 };
  const look = (): void => void Object.assign(seen, { monotonic: time.wall, wall: time.wall });
  const clock = {
    now: () => ({ ...seen }),
    after: (ms: number, keepsAlive: boolean, callback: () => void) =>
      time.after(ms, keepsAlive, () => {
        look();
        callback();
      }),
  };
  const env = { ...virtualEnvironment(1, { isolatesRequests: true }), clock };
  const redis = memoryClient({}, { ...virtualEnvironment(2), clock: time });
  let requests = 0;
  const client: CommandClient = {
    async execute(command) {
      requests += 1;
      await lasting(time, 10);
      const reply = await redis.execute(command);
      await lasting(time, 10);
      look();
      return reply;
    },
  };
  return { time, env, redis, client, look, requests: () => requests };
}

describe("H04 a clock that moves only with requests", () => {
  test("H04 what is made while it reads 0 has the right deadline in a request", async () => {
    const { time, env, client, look } = worker();
    const lock = createLock(client, {}, env);
    look();
    const lease = await time.until(lock.acquire("job"));
    expect(lease.remaining()).toBeGreaterThan(9_700);
    expect(lease.remaining()).toBeLessThan(10_000);
  });

  test("H04 a wait ends, with a bounded number of requests", async () => {
    const { time, env, client, look, requests } = worker();
    const lock = createLock(client, {}, env);
    look();
    await time.until(lock.acquire("job", { leaseMs: 60_000 }));
    const [begun, before] = [time.monotonic, requests()];
    await lockError(time.until(lock.acquire("job", { waitMs: 5_000 })), "timeout");
    expect(time.monotonic - begun).toBeLessThan(6_000);
    expect(requests() - before).toBeLessThanOrEqual(20);
  });

  test("H04 after work that the clock did not see, one round trip tells that the lease is over", async () => {
    const { time, env, redis, client, look } = worker();
    const lock = createLock(client, {}, env);
    look();
    const lease = await time.until(lock.acquire("job"));
    time.freeze(20_000); // 20 s of computing
    expect(await redis.execute(["EXISTS", "lock:{job}"])).toBe(0);
    expect(lease.remaining()).toBeGreaterThan(0); // an upper bound: it cannot know yet
    await lockError(time.until(lease.extend()), "lost");
    expect(lease.remaining()).toBe(0);
  });
});

describe("H05 six connections", () => {
  test("H05 a Redlock over seven nodes that renews, and three cached reads, finish with six requests at a time", async () => {
    const env = virtualEnvironment();
    const redises = Array.from({ length: 7 }, () => memoryClient({}, env));
    const { fetch, most } = sixConnections(async ({ url, body }) => {
      await lasting(env.clock, 30);
      return answer(200, { result: await redises[Number(new URL(url).hostname.at(1))]?.execute(JSON.parse(body)) });
    });
    const clients = redises.map((_, at) => restClient({ url: `https://n${at}.example`, token: "t", fetch }));
    const lock = createRedlock(clients, { leaseMs: 3_000 }, env);
    const cache = createCache(clients[0] as CommandClient, {}, env);
    const read = (key: string) => cache.get(key, { freshMs: 60_000 }, () => key);
    const work = lock.withLock("job", async (lease) => {
      const values = await Promise.all(["a", "b", "c"].map(read));
      await lasting(env.clock, 10_000);
      return [...values, lease.remaining() > 0];
    });
    expect(await env.clock.until(work)).toEqual(["a", "b", "c", true]);
    expect(most()).toBe(6);
  });
});

describe("H06 a budget of requests", () => {
  test("H06 a cycle is two requests, and a wait of 10 s no more than 20", async () => {
    const { lock, other, clock, client } = oneRedis();
    await lock.withLock("job", () => {});
    expect(client.sent).toHaveLength(2);
    await other.acquire("job", { leaseMs: 60_000 });
    const before = client.sent.length;
    await lockError(clock.until(lock.acquire("job", { waitMs: 10_000 })), "timeout");
    expect(client.sent.length - before).toBeLessThanOrEqual(20);
  });

  test("H06 a budget that is used up is unavailable, and not the platform's own error", async () => {
    const fail = new Error("Too many subrequests.");
    const { lock, clock } = oneRedis({ waitMs: 1_000 }, { always: { fail } });
    const error = await lockError(clock.until(lock.acquire("job")), "unavailable");
    expect(error.nodes?.[0]?.reason).toBe("Too many subrequests.");
  });
});

describe("I02 renewal that was frozen", () => {
  test("I02 after a freeze the lease is over at the first look, one command at most is sent, and the next holder keeps its own", async () => {
    const { lock, other, clock, client, run, events } = oneRedis({ leaseMs: 30_000 });
    let remaining = (): number => Number.NaN;
    let fence = 0;
    const running = lock.withLock("job", (lease) => {
      remaining = lease.remaining;
      fence = lease.fence;
      return lasting(clock, 120_000);
    });
    await settle();
    clock.freeze(60_000); // no timer has run
    const next = await other.acquire("job", { leaseMs: 300_000 });
    expect(remaining()).toBe(0);
    expect(events.filter(({ type }) => type === "lost")).toHaveLength(1);

    expect(await fencedSet(client, { key: "{job}:value", value: "new", fence: next.fence })).toBe(true);
    expect(await fencedSet(client, { key: "{job}:value", value: "old", fence })).toBe(false);
    const sent = client.sent.length;
    await lockError(clock.until(running), "lost");
    expect(client.sent.length - sent).toBeLessThanOrEqual(1); // its release
    expect(await run("GET", "lock:{job}")).toBe(next.token);
    expect(next.remaining()).toBeGreaterThan(0);
  });
});

describe("I04 work that nobody waits for", () => {
  afterEach(() => vi.unstubAllGlobals());

  test("I04 no hook of a platform is looked for: without waitUntil the caller waits itself", async () => {
    const hook = vi.fn();
    const context = { get: () => ({ waitUntil: hook }), waitUntil: hook };
    vi.stubGlobal("EdgeRuntime", context);
    vi.stubGlobal("Netlify", { context });
    vi.stubGlobal("waitUntil", hook);
    const request = Symbol.for("@vercel/request-context");
    Reflect.set(globalThis, request, context);
    try {
      const { lock, clock, run } = oneRedis({}, { release: [{ replyMs: 50 }] });
      expect(await clock.until(lock.withLock("job", () => 42))).toBe(42);
      expect(await run("EXISTS", "lock:{job}")).toBe(0);
    } finally {
      Reflect.deleteProperty(globalThis, request);
    }
    expect(hook).not.toHaveBeenCalled();
  });

  test("I04 get() resolves when what it built is stored", async () => {
    const env = virtualEnvironment();
    const redis = memoryClient({}, env);
    let underWay = 0;
    const client: CommandClient = {
      async execute(command) {
        underWay += 1;
        await lasting(env.clock, 50);
        const reply = await redis.execute(command);
        underWay -= 1;
        return reply;
      },
    };
    const cache = createCache(client, {}, env);
    const { value, stored } = await env.clock.until(cache.getEntry("a", { freshMs: 60_000 }, () => 42));
    expect([value, stored, underWay]).toEqual([42, true, 0]);
  });
});
