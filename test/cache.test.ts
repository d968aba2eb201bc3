import { getEventListeners } from "node:events";
import { describe, expect, test } from "vitest";
import { memoryClient } from "../adapters/memory/index.ts";
import { type Codec, jsonCodec } from "../src/cache/codec.ts";
import type { GetOptions } from "../src/cache/options.ts";
import { createCache } from "../src/cache.ts";
import { world } from "./cache/world.ts";
import { lockError } from "./support/rejection.ts";

const fresh = { freshMs: 60_000 };
const second = 1_000;

describe("get", () => {
  test("builds a missing value with 2 requests and serves it with 1", async () => {
    const { clock, process, slow } = world();
    const { cache, verbs } = process();
    const build = slow(300, { cents: 1_999 });
    const built = await clock.until(cache.getEntry("price:42", fresh, build));
    expect(built).toEqual({
      value: { cents: 1_999 },
      status: "built",
      fence: expect.any(Number),
      stored: true,
      requests: 2,
    });
    expect(Number.isSafeInteger(built.fence)).toBe(true);
    const hit = await clock.until(cache.getEntry("price:42", fresh, build));
    expect(hit).toEqual({ ...built, status: "hit", requests: 1 });
    expect(await cache.get("price:42", fresh, build)).toEqual({ cents: 1_999 });
    expect(build.calls).toBe(1);
    expect(verbs()).toEqual(["elect", "commit", "elect", "elect"]);
  });

  test.each([
    ["at once", jsonCodec],
    ["later", { ...jsonCodec, decode: async (text: string) => JSON.parse(text) as unknown }],
  ])(
    "an entry that its codec %s cannot read is a mistake that says how to mend it, without the value",
    async (_, codec) => {
      const client = memoryClient();
      const cache = createCache(client, { codec });
      await cache.get("k", fresh, () => "kept");
      await client.execute(["HSET", "cache:{k}", "p", 'c["json",null]{"secret": oops']);
      for (const read of [() => cache.get("k", fresh, () => "new"), () => cache.peek("k")]) {
        const error: unknown = await read().catch((reason: unknown) => reason);
        expect(error).toMatchObject({
          code: "config",
          message: 'Cannot read "k" as its codec cannot read it: invalidate it',
        });
        expect(JSON.stringify(error)).not.toContain("secret");
      }
      await cache.invalidate("k");
      expect(await cache.get("k", fresh, () => "new")).toBe("new");
    },
  );

  test("builds anew when freshness has ended", async () => {
    const { clock, process } = world();
    const { cache } = process();
    let version = 0;
    const get = (): Promise<number> =>
      cache.get("k", { freshMs: second }, () => {
        version += 1;
        return version;
      });
    expect(await get()).toBe(1);
    await clock.advance(second - 1);
    expect(await get()).toBe(1);
    await clock.advance(1);
    expect(await get()).toBe(2);
  });

  test("gives the builder what it stored, read again", async () => {
    const { cache } = world().process();
    const value = await cache.get("k", fresh, () => ({ at: new Date(0), gone: undefined }));
    expect(value).toEqual({ at: "1970-01-01T00:00:00.000Z" });
    expect(await cache.get("k", fresh, () => value)).toEqual(value);
  });

  test("gives no two callers the same object", async () => {
    const { clock, process, slow } = world();
    const { cache } = process();
    const build = slow(10, { list: [1] });
    const [a, b] = await clock.until(Promise.all([cache.get("k", fresh, build), cache.get("k", fresh, build)]));
    expect(a).toEqual(b);
    expect(a).not.toBe(b);
  });

  test.each([null, 0, "", false, [], "j1", "17", "true", "null", "\ud800", "日本", { a: { b: null } }])(
    "27: %j is a value",
    async (value) => {
      const { cache } = world().process();
      const built = await cache.getEntry("k", fresh, () => value);
      const hit = await cache.getEntry("k", fresh, () => expect.fail("the value is there"));
      expect(built.value).toEqual(value);
      expect(hit).toMatchObject({ value, status: "hit" });
    },
  );

  test.each([
    ["undefined", () => undefined],
    ["a bigint", () => 1n],
    ["a function", () => () => 1],
    [
      "a cycle",
      () => {
        const cycle: { self?: unknown } = {};
        cycle.self = cycle;
        return cycle;
      },
    ],
  ])("refuses %s, and as it is no value, the build has failed", async (_, build) => {
    const { cache, verbs } = world().process();
    const error = await lockError(cache.get<unknown>("k", fresh, build), "build-failed");
    expect((error.cause as Error).message).toMatch(/^Cannot store "k" as its codec cannot write it: /);
    const next = await lockError(
      cache.get("k", fresh, () => 1),
      "build-failed",
    );
    expect(next.retryAfterMs).toBeGreaterThan(0);
    expect(verbs()).toEqual(["elect", "tend", "elect"]);
  });

  test("hands a build its fence and a signal that stays silent when all goes well", async () => {
    const { clock, process, pass } = world();
    const { cache } = process();
    let aborted = 0;
    const { fence } = await clock.until(
      cache.getEntry("k", fresh, async (context) => {
        context.signal.addEventListener("abort", () => {
          aborted += 1;
        });
        await pass(50);
        return context.fence;
      }),
    );
    expect(await cache.get("k", fresh, () => 0)).toBe(fence);
    expect(aborted).toBe(0);
  });

  test("leaves no timer and no listener behind", async () => {
    const { clock, process, slow } = world();
    const { cache } = process();
    const { signal } = new AbortController();
    const options = { ...fresh, signal };
    await clock.until(Promise.all([cache.get("k", options, slow(10, 1)), cache.get("k", options, slow(10, 1))]));
    await cache.get("k", options, () => 2);
    await lockError(
      cache.get("other", options, () => Promise.reject(new Error("no"))),
      "build-failed",
    );
    expect(clock.pending).toEqual([]);
    expect(getEventListeners(signal, "abort")).toEqual([]);
  });

  test("lets fences grow from build to build, over an invalidation and over the loss of the key", async () => {
    const { cache } = world().process();
    const fences: number[] = [];
    for (const step of ["invalidate", "delete", "none"]) {
      fences.push((await cache.getEntry("k", fresh, () => 1)).fence);
      if (step !== "none") await cache.invalidate("k");
    }
    expect(fences).toEqual([...fences].sort((a, b) => a - b));
    expect(new Set(fences).size).toBe(3);
  });

  test("tells the observer of elections, builds, hits and invalidations, and never a token or a value", async () => {
    const { clock, process, slow } = world();
    const { cache, events, client } = process();
    const build = slow(30, "secret value");
    const { fence } = await clock.until(cache.getEntry("k", fresh, build));
    await cache.get("k", fresh, build);
    await cache.invalidate("k");
    const node = (outcome: string) => [{ label: "memory", outcome, ms: 0 }];
    const common = { name: "k", fence };
    expect(events).toEqual([
      { ...common, type: "elected", durationMs: 0, requests: 1, nodes: node("won") },
      { ...common, type: "built", stored: true, durationMs: 30, requests: 2, nodes: node("stored") },
      { ...common, type: "hit", durationMs: 0, requests: 1, nodes: node("hit") },
      {
        type: "invalidated",
        name: "k",
        fence: expect.any(Number),
        durationMs: 0,
        requests: 1,
        nodes: node("invalidated"),
      },
    ]);
    const token = String(client.sent[0]?.[4]);
    expect(token).toMatch(/^t[0-9a-f]{32}$/);
    expect(JSON.stringify(events)).not.toContain(token);
    expect(JSON.stringify(events)).not.toContain("secret");
  });
});

describe("set", () => {
  test("stores with 2 requests, over whatever stands there", async () => {
    const { cache, verbs } = world().process();
    expect(await cache.set("k", { v: 1 }, fresh)).toBe(true);
    expect(await cache.set("k", { v: 2 }, fresh)).toBe(true);
    expect(verbs()).toEqual(["elect", "commit", "elect", "commit"]);
    expect(await cache.getEntry("k", fresh, () => ({ v: 3 }))).toMatchObject({ value: { v: 2 }, status: "hit" });
  });

  test("keeps a build that began before it from storing, and gives its caller the newer value", async () => {
    const { clock, process, slow } = world();
    const [a, b] = [process(), process()];
    const building = a.cache.getEntry("k", fresh, slow(500, "old"));
    await clock.advance(100);
    await b.cache.set("k", "new", fresh);
    expect(await clock.until(building)).toMatchObject({ value: "new", status: "waited", stored: true, requests: 2 });
    expect(a.events.map(({ type }) => type)).toEqual(["elected", "commit-refused", "built", "hit"]);
    expect(await b.cache.get("k", fresh, () => "other")).toBe("new");
  });

  test("is served to readers as soon as it is stored, and lets them have the old value until then", async () => {
    const { clock, process } = world();
    const a = process();
    const b = process({ faults: (verb) => (verb === "commit" ? { requestMs: 100 } : undefined) });
    await a.cache.set("k", "old", fresh);
    const setting = b.cache.set("k", "new", fresh);
    await clock.advance(50);
    expect(await a.cache.get("k", fresh, () => "other")).toBe("old");
    expect(await clock.until(setting)).toBe(true);
    expect(await a.cache.get("k", fresh, () => "other")).toBe("new");
  });

  test("resolves with false when an invalidation came in between", async () => {
    const { clock, process } = world();
    const a = process({ faults: (verb) => (verb === "commit" ? { requestMs: 100 } : undefined) });
    const setting = a.cache.set("k", 1, fresh);
    await clock.advance(50);
    await process().cache.invalidate("k");
    expect(await clock.until(setting)).toBe(false);
    expect(await a.cache.peek("k")).toBeUndefined();
  });

  test("a late copy of its first request does not bring the value back after an invalidation", async () => {
    const { clock, process } = world();
    const a = process({ faults: (verb) => (verb === "elect" ? { againMs: 500 } : undefined) });
    await a.cache.set("k", "old", fresh);
    const b = process();
    await b.cache.invalidate("k");
    await clock.advance(1_000);
    expect(await b.cache.peek("k")).toBeUndefined();
    const entry = await clock.until(b.cache.getEntry("k", { ...fresh, waitMs: 60_000 }, () => "new"));
    expect(entry.value).toBe("new");
  });

  test("refuses what has no form in JSON before anything is sent", async () => {
    const { cache, client } = world().process();
    await lockError(cache.set("k", undefined, fresh), "config");
    expect(client.sent).toEqual([]);
  });
});

describe("peek", () => {
  test("shows what stands there, and changes and builds nothing", async () => {
    const { clock, process, redis } = world();
    const { cache, verbs } = process();
    expect(await cache.peek("k")).toBeUndefined();
    expect(await redis.execute(["EXISTS", "cache:{k}"])).toBe(0);
    await cache.set("k", [1], fresh);
    await clock.advance(20_000);
    expect(await cache.peek("k")).toEqual({ value: [1], fence: expect.any(Number), freshMs: 40_000 });
    await clock.advance(40_000);
    expect(await cache.peek("k")).toBeUndefined();
    expect(verbs()).toEqual(["elect", "elect", "commit", "elect", "elect"]);
  });
});

describe("options", () => {
  const cases: [string, Partial<Record<keyof GetOptions, unknown>>][] = [
    ["freshMs", { freshMs: 0 }],
    ["freshMs", { freshMs: 1.5 }],
    ["freshMs", { freshMs: "60" }],
    ["freshMs", { freshMs: 366 * 86_400_000 }],
    ["staleMs", { staleMs: -1 }],
    ["errorMs", { errorMs: -1 }],
    ["negativeMs", { negativeMs: -1 }],
    ["leaseMs", { leaseMs: 9 }],
    ["maxHoldMs", { maxHoldMs: -1 }],
    ["softTimeoutMs", { softTimeoutMs: -1 }],
    ["hardTimeoutMs", { hardTimeoutMs: -1 }],
    ["waitMs", { waitMs: -1 }],
    ["waitMs", { waitMs: Number.POSITIVE_INFINITY }],
    ["onRedisDown", { onRedisDown: "retry" }],
    ["signal", { signal: {} }],
    ["waitUntil", { waitUntil: 1 }],
  ];
  test.each(cases)("refuses %s when it is wrong, before anything is sent: %j", async (option, wrong) => {
    const { cache, client } = world().process();
    const options = { ...fresh, ...wrong } as unknown as GetOptions;
    const error = await lockError(
      cache.get("k", options, () => 1),
      "config",
    );
    expect(error.message).toMatch(new RegExp(`^Cannot use ${option} as it must be .*: current value is `));
    expect(client.sent).toEqual([]);
  });

  test("takes a lease of 10 ms, and one of 10 s where none is asked for", async () => {
    const { cache, client } = world().process();
    await cache.get("a", fresh, () => 1);
    await cache.get("b", { ...fresh, leaseMs: 10 }, () => 1);
    expect([0, 2].map((place) => client.sent[place]?.[5])).toEqual([10_000, 10]);
  });

  test("refuses a missing freshMs, a missing build, an empty key and a lone surrogate", async () => {
    const { cache, client } = world().process();
    await lockError(
      cache.get("k", {} as unknown as GetOptions, () => 1),
      "config",
    );
    await lockError(
      cache.get("k", undefined as unknown as GetOptions, () => 1),
      "config",
    );
    await lockError(cache.get("k", fresh, undefined as unknown as () => number), "config");
    for (const key of ["", "\ud800", 1 as unknown as string]) {
      await lockError(
        cache.get(key, fresh, () => 1),
        "config",
      );
      await lockError(cache.set(key, 1, fresh), "config");
      await lockError(cache.invalidate(key), "config");
      await lockError(cache.peek(key), "config");
    }
    expect(client.sent).toEqual([]);
  });

  test("refuses a wrong prefix, observer, waitUntil, codec or client at once", () => {
    const client = memoryClient();
    const wrong = 1 as unknown as undefined;
    expect(() => createCache(client, { prefix: "a{b" })).toThrow("Cannot use prefix");
    expect(() => createCache(client, { observe: wrong })).toThrow("Cannot use observe");
    expect(() => createCache(client, { waitUntil: wrong })).toThrow("Cannot use waitUntil");
    expect(() => createCache({} as unknown as typeof client)).toThrow("must be one with execute");
    for (const codec of [null, "json", {}, { name: "x", decode: 1 }]) {
      expect(() => createCache(client, { codec: codec as unknown as Codec })).toThrow(
        "Cannot use codec.decode as it must be a function",
      );
    }
  });

  test("keeps entries under its prefix, one key each, in the slot of the data they are made of", async () => {
    const { redis, process } = world();
    const { cache } = process({ options: { prefix: "shop" } });
    await cache.set("price:42", 1, fresh);
    await cache.set("price:{42}", 1, fresh);
    expect(await redis.execute(["TYPE", "shop:{price:42}"])).toBe("hash");
    expect(await redis.execute(["TYPE", "shop:price:{42}"])).toBe("hash");
    expect(await redis.execute(["DBSIZE"])).toBe(2);
  });

  test("a key of another type is a mistake in the configuration, and is left alone", async () => {
    const { redis, process } = world();
    const { cache } = process();
    await redis.execute(["SET", "cache:{k}", "mine"]);
    for (const call of [
      cache.get("k", fresh, () => 1),
      cache.set("k", 1, fresh),
      cache.invalidate("k"),
      cache.peek("k"),
    ]) {
      expect((await lockError(call, "config")).message).toContain("WRONGTYPE");
    }
    expect(await redis.execute(["GET", "cache:{k}"])).toBe("mine");
  });
});
