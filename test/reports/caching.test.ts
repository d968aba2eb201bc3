/**
 * Public reports on caches that are rebuilt under a lock. Each test is named by the id of its report.
 */
import { Redis } from "ioredis";
import { describe, expect, test } from "vitest";
import { ioredisClient } from "../../adapters/ioredis.ts";
import { memoryClient } from "../../adapters/memory/index.ts";
import { restClient } from "../../adapters/rest.ts";
import type { BuildContext } from "../../src/cache/reader.ts";
import { createCache } from "../../src/cache.ts";
import { startBuilder } from "../cache/doomed-builder.ts";
import { type World, world } from "../cache/world.ts";
import { answer, sixConnections } from "../support/fetch-double.ts";
import { describeRedis, startRedis, startRestServer } from "../support/redis.ts";
import { lockError } from "../support/rejection.ts";
import { lasting, settle, virtualEnvironment } from "../support/virtual-clock.ts";

const second = 1_000;
const minute = 60 * second;
const fresh = { freshMs: minute };

/** A process has begun to build and has died, where builds took so long before; 0 where there was none. */
async function withDeadBuilder(leaseMs: number, usualMs: number): Promise<World> {
  const here = world();
  const { clock, process, slow } = here;
  if (usualMs > 0) {
    await clock.until(process().cache.get("k", { freshMs: 1 }, slow(usualMs, 0)));
    await clock.advance(second);
  }
  const { cache } = process({ faults: (verb) => (verb === "elect" ? undefined : { lose: "request" }) });
  void cache.get("k", { ...fresh, leaseMs }, () => new Promise(() => {})).catch(() => {});
  await settle();
  return here;
}

describe("M02 a failure of Redis or of the factory causes a stampede", () => {
  test("M02 without Redis 50 reads in one process run one factory at a time, and none of it looks stored", async () => {
    const { clock, process, slow } = world();
    const { cache } = process({ faults: () => ({ fail: new Error("ECONNREFUSED") }) });
    const factory = slow(100, 1);
    const reads = Array.from({ length: 50 }, () => cache.getEntry("k", fresh, factory));
    const entries = await clock.until(Promise.all(reads));
    expect(factory.most).toBe(1);
    expect(factory.calls).toBe(1);
    expect(entries.every(({ stored, value }) => value === 1 && !stored)).toBe(true);
  });

  test("M02 with onRedisDown throw all are told that Redis is unavailable, which is no miss", async () => {
    const { clock, process, slow } = world();
    const { cache } = process({ faults: () => ({ fail: new Error("ECONNREFUSED") }) });
    const factory = slow(100, 1);
    const options = { ...fresh, onRedisDown: "throw" } as const;
    const reads = Array.from({ length: 50 }, () => lockError(cache.get("k", options, factory), "unavailable"));
    await clock.until(Promise.all(reads));
    expect(factory.calls).toBe(0);
  });

  test("M02 a factory that throws is called once for 50 waiters in 5 processes, within the back-off", async () => {
    const { clock, process, pass } = world();
    let calls = 0;
    const factory = async (): Promise<never> => {
      calls += 1;
      await pass(50);
      throw new Error("the database is down");
    };
    const processes = Array.from({ length: 5 }, () => process());
    const reads = processes.flatMap(({ cache }) =>
      Array.from({ length: 10 }, () => lockError(cache.get("k", fresh, factory), "build-failed")),
    );
    await clock.until(Promise.all(reads));
    await clock.advance(500);
    for (const { cache } of processes) await lockError(cache.get("k", fresh, factory), "build-failed");
    expect(calls).toBe(1);
  });
});

test("M03 who has waited looks again before it builds: 50 cold callers over 5 processes, one factory call", async () => {
  const { clock, process, slow } = world();
  const factory = slow(800, "value");
  const processes = Array.from({ length: 5 }, () => process({ faults: () => ({ requestMs: 15, replyMs: 15 }) }));
  const reads = processes.flatMap(({ cache }) => Array.from({ length: 10 }, () => cache.get("k", fresh, factory)));
  expect(new Set(await clock.until(Promise.all(reads)))).toEqual(new Set(["value"]));
  expect(factory.calls).toBe(1);
  for (const { client } of processes) expect(client.sent.length).toBeLessThanOrEqual(5);
});

describe("M04 a builder dies, and waiters hang", () => {
  describeRedis("against a real Redis", () => {
    test("M04 after a SIGKILL of the builder another caller builds when the lease is over", async () => {
      await using parts = new AsyncDisposableStack();
      const server = await startRedis();
      parts.defer(server.stop);
      const kill = await startBuilder(parts, { port: server.port, leaseMs: 500 });
      await kill();
      const redis = new Redis(server.port, "127.0.0.1");
      parts.defer(() => redis.disconnect());
      const instant = async (field: string): Promise<number> => Number(await redis.hget("cache:{k}", field));
      const leaseEnds = await instant("lu");
      expect(leaseEnds).toBeGreaterThan(0);
      const cache = createCache(ioredisClient(redis));
      const entry = await cache.getEntry(
        "k",
        { ...fresh, waitMs: 30_000 },
        async () => (await instant("ls")) - leaseEnds,
      );
      expect(entry).toMatchObject({ status: "built", stored: true });
      expect(entry.value).toBeGreaterThanOrEqual(0); // by the server's clock, not before the lease was over
    });
  });

  // The delay is 50 ms, which spreads those who wait, and the request of 30 ms itself.
  test.for([
    [500, 0],
    [500, 200],
    [9_000, 0],
    [9_000, 200],
    [9_000, 4_000],
  ] as const)(
    "M04 another caller builds no later than one delay after the lease of %i ms, where builds took %i ms before",
    async ([leaseMs, usualMs]) => {
      const { clock, process } = await withDeadBuilder(leaseMs, usualMs);
      const died = clock.monotonic;
      const readers = Array.from({ length: 5 }, () => process({ faults: () => ({ requestMs: 15, replyMs: 15 }) }));
      const build = async (): Promise<number> => clock.monotonic - died;
      const entries = await clock.until(
        Promise.all(readers.map(({ cache }) => cache.getEntry("k", { ...fresh, waitMs: minute }, build))),
      );
      expect(entries.filter(({ status }) => status === "built")).toHaveLength(1);
      expect(entries[0]?.value).toBeGreaterThanOrEqual(leaseMs);
      expect(entries[0]?.value).toBeLessThanOrEqual(leaseMs + 50 + 30);
    },
  );

  test("M04 with an old copy a waiter of 200 ms has it at once, and without one is told who builds", async () => {
    const { clock, process } = world();
    const windows = { freshMs: second, staleMs: minute };
    await process().cache.set("old", "old", windows);
    await clock.advance(2 * second);
    const dead = process({ faults: (verb) => (verb === "elect" ? undefined : { lose: "request" }) });
    for (const key of ["old", "cold"]) void dead.cache.get(key, windows, () => new Promise(() => {})).catch(() => {});
    await clock.advance(10);
    const { cache } = process();
    const started = clock.monotonic;
    const options = { ...windows, waitMs: 200 };
    expect(await cache.get("old", options, () => "new")).toBe("old");
    expect(clock.monotonic).toBe(started);
    await lockError(clock.until(cache.get("cold", options, () => "new")), "timeout");
    expect(clock.monotonic).toBe(started + 200);
  });
});

describe("M05 an old copy is not there, or is served after an invalidation", () => {
  const windows = { freshMs: second, staleMs: 10 * second, waitUntil: () => {} };

  test("M05 fresh for 1 s and old for 10: a read at 2 s has it at once, and one rebuild begins that is handed it", async () => {
    const { clock, process, pass } = world();
    const { cache } = process();
    await cache.set("k", "old", windows);
    await clock.advance(2 * second);
    const handed: unknown[] = [];
    const factory = async ({ stale }: BuildContext): Promise<string> => {
      handed.push(stale);
      await pass(300);
      return "new";
    };
    const started = clock.monotonic;
    const reads = [process(), process()].map((reader) => reader.cache.get("k", windows, factory));
    expect(await clock.until(Promise.all(reads))).toEqual(["old", "old"]);
    expect(clock.monotonic).toBe(started);
    await clock.advance(400);
    expect(handed).toEqual(["old"]);
    expect(await cache.get("k", windows, factory)).toBe("new");
  });

  test("M05 after a deletion nobody is given the old value, whether the build succeeds, fails or is under way", async () => {
    const { clock, process, slow } = world();
    const { cache } = process();
    const options = { ...windows, errorMs: minute };
    await cache.set("k", "old", options);
    await clock.advance(2 * second);
    const underWay = process().cache.get("k", options, slow(300, "built from what was deleted"));
    await clock.advance(10);
    await cache.invalidate("k");
    const elsewhere = process().cache;
    await lockError(
      elsewhere.get("k", options, () => Promise.reject(new Error("no"))),
      "build-failed",
    );
    await clock.until(underWay);
    expect(await cache.peek("k")).toBeUndefined();
    await clock.advance(second);
    expect(await cache.get("k", options, () => "new")).toBe("new");
  });
});

describe("M06 a slow builder overwrites a newer value, or brings a deleted one back", () => {
  /** A builder that is so slow that its renewals do not get through, and who builds meanwhile. */
  async function overtaken(meanwhile: (here: World) => Promise<unknown>) {
    const here = world();
    const a = here.process({ faults: (verb) => (verb === "tend" ? { lose: "request" } : undefined) });
    const slow = a.cache.getEntry("k", { ...fresh, leaseMs: second }, here.slow(3 * second, "v1"));
    await here.clock.advance(1_500);
    await meanwhile(here);
    return { entry: await here.clock.until(slow), stands: await here.process().cache.peek("k"), events: a.events };
  }

  test("M06 its value is refused, what stands is the newer one, and its caller has that one", async () => {
    const { entry, stands, events } = await overtaken(({ clock, process }) =>
      clock.until(process().cache.get("k", fresh, () => "v2")),
    );
    expect(stands).toMatchObject({ value: "v2" });
    expect(entry).toMatchObject({ value: "v2", stored: true });
    expect(events.find(({ type }) => type === "commit-refused")).toMatchObject({ reason: "superseded" });
  });

  test.each(["invalidate", "DEL"])("M06 what is deleted while it builds is not stored: by %s", async (way) => {
    const { entry, stands } = await overtaken(({ process, redis }) =>
      way === "DEL" ? redis.execute(["DEL", "cache:{k}"]) : process().cache.invalidate("k"),
    );
    expect(stands).toBeUndefined();
    expect(entry).toMatchObject({ value: "v1", status: "built", stored: false });
  });
});

describe("M07 a factory asks for its own key", () => {
  const options = { ...fresh, leaseMs: minute };

  test("M07 it is refused at once, with what is wrong", async () => {
    const { clock, process } = world();
    const { cache } = process();
    const read = cache.get("k", options, () => cache.get("k", options, () => 1));
    expect((await lockError(clock.until(read), "build-failed")).cause).toMatchObject({ code: "config", lockName: "k" });
    expect(clock.monotonic).toBe(1_000);
  });
});

describeRedis("over HTTP", () => {
  test("F14 50 reads at once over one client all get through, and nothing is sent as a transaction", async () => {
    await using parts = new AsyncDisposableStack();
    const server = await startRedis();
    parts.defer(server.stop);
    const redis = new Redis(server.port, "127.0.0.1");
    parts.defer(() => redis.disconnect());
    const rest = await startRestServer(ioredisClient(redis), { token: "secret-token-of-a-test" });
    parts.defer(rest.stop);
    const paths = new Set<string>();
    const spy: typeof fetch = (url, init) => {
      paths.add(new URL(String(url)).pathname);
      return fetch(url, init);
    };
    const cache = createCache(restClient({ url: rest.url, token: "secret-token-of-a-test", fetch: spy }));
    const reads = Array.from({ length: 50 }, (_, place) => cache.get(`k${place}`, fresh, () => place));
    expect(await Promise.all(reads)).toEqual(Array.from({ length: 50 }, (_, place) => place));
    expect(paths).toEqual(new Set(["/"]));
  });
});

describe("on hosts that keep requests apart", () => {
  test("H05 twelve requests that read four keys, whose builds fetch too, finish with six connections", async () => {
    const env = virtualEnvironment(1, { isolatesRequests: true });
    const redis = memoryClient({}, env);
    const { fetch, most } = sixConnections(async ({ url, body }) => {
      await lasting(env.clock, 30);
      return answer(200, url.startsWith("https://api.") ? body : { result: await redis.execute(JSON.parse(body)) });
    });
    const cache = createCache(restClient({ url: "https://redis.example", token: "t", fetch }), {}, env);
    const read = (_: unknown, place: number) =>
      cache.get(`k${place % 4}`, fresh, async () => {
        const request = { method: "POST", headers: {}, body: `v${place % 4}`, redirect: "manual" } as const;
        return (await fetch("https://api.example", request)).text();
      });
    const values = await env.clock.until(Promise.all(Array.from({ length: 12 }, read)));
    expect(values).toEqual(Array.from({ length: 12 }, (_, place) => `v${place % 4}`));
    expect(most()).toBe(6);
  });

  // Where nobody knows: at 0, 100, 300 and 700 ms, and then every 500. After short builds it is asked more often at first.
  test.for([
    [22, "nothing", 0],
    [30, "that it took 1 ms the last time", 1],
    [22, "that it took 300 ms the last time", 300],
    [16, "that it took 3 s the last time", 3_000],
  ] as const)(
    "H06 a waiter of 10 s asks %i times at most behind a build that hangs, where it knows of it %s, and is told of a time-out",
    async ([most, , usualMs]) => {
      const { clock, process } = await withDeadBuilder(minute, usualMs);
      await clock.advance(1);
      const { cache, client } = process({ isolatesRequests: true });
      await lockError(clock.until(cache.get("k", fresh, () => 1)), "timeout");
      expect(client.sent.length).toBeLessThanOrEqual(most);
    },
  );

  test("H07 a build that goes on after the response is handed to waitUntil, and ends there", async () => {
    const { clock, process, slow } = world();
    await process().cache.set("k", "old", { freshMs: second, staleMs: minute });
    await clock.advance(2 * second);
    const work: Promise<unknown>[] = [];
    const { cache } = process({ isolatesRequests: true, options: { waitUntil: (promise) => void work.push(promise) } });
    expect(await cache.get("k", { freshMs: second, staleMs: minute }, slow(300, "new"))).toBe("old");
    expect(work).toHaveLength(1);
    await clock.until(Promise.all(work));
    expect(clock.pending).toEqual([]);
    expect(await cache.peek("k")).toMatchObject({ value: "new" });
  });

  test("I04 without waitUntil a read resolves when all of it is done", async () => {
    const { clock, process, slow } = world();
    await process().cache.set("k", "old", { freshMs: second, staleMs: minute });
    await clock.advance(2 * second);
    const { cache, client } = process({ isolatesRequests: true });
    const read = cache.get("k", { freshMs: second, staleMs: minute }, slow(300, "new"));
    expect(await clock.until(read)).toBe("new");
    const sent = client.sent.length;
    expect(clock.pending).toEqual([]);
    await clock.advance(minute);
    expect(client.sent).toHaveLength(sent);
  });
});
