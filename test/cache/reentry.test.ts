/** Builds that ask for their own key. */
import { afterEach, describe, expect, test, vi } from "vitest";
import { memoryClient } from "../../adapters/memory/index.ts";
import { createCache } from "../../src/cache.ts";
import { lockError } from "../support/rejection.ts";
import { virtualEnvironment } from "../support/virtual-clock.ts";
import { world } from "./world.ts";

const fresh = { freshMs: 60_000 };
const refused = { code: "config", message: 'Cannot get "a" as its own build asks for it' };

afterEach(() => void vi.unstubAllGlobals());

describe("20: re-entrancy", () => {
  test("refuses a build that asks for its own key, at once, before and after it has waited", async () => {
    const { clock, process, pass } = world();
    const { cache } = process();
    for (const ms of [0, 50]) {
      const started = clock.monotonic;
      const read = cache.get("a", fresh, async (): Promise<number> => {
        if (ms > 0) await pass(ms);
        return cache.get("a", fresh, () => 1);
      });
      const error = await lockError(clock.until(read), "build-failed");
      expect(error.cause).toMatchObject(refused);
      expect(clock.monotonic - started).toBe(ms);
      await clock.advance(60_000);
    }
  });

  test("sees through the builds of other keys", async () => {
    const { clock, process } = world();
    const { cache } = process();
    const read = cache.get("a", fresh, () =>
      cache.get("b", fresh, () => cache.get("c", fresh, () => cache.get("a", fresh, () => 1))),
    );
    const error = await lockError(clock.until(read), "build-failed");
    expect(error.cause).toMatchObject({ lockName: "b", cause: { lockName: "c", cause: refused } });
  });

  test("lets a build ask for other keys, twice for one, and for its own when it is over", async () => {
    const { clock, process, pass } = world();
    const { cache } = process();
    let after: Promise<number> | undefined;
    const sum = cache.get("a", { freshMs: 10 }, async () => {
      after = pass(100).then(() => cache.get("a", fresh, () => 7));
      return (await cache.get("b", fresh, () => 1)) + (await cache.get("b", fresh, () => 2));
    });
    expect(await clock.until(sum)).toBe(2);
    expect(await clock.until(after ?? sum)).toBe(7);
  });

  test("sees through caches: any on the same Redis with the same prefix, none elsewhere", async () => {
    const { clock, process } = world();
    const { cache, client } = process();
    const same = createCache(client, {}, { ...virtualEnvironment(), clock });
    const others = [createCache(client, { prefix: "other" }), createCache(memoryClient())];
    const error = await lockError(
      clock.until(cache.get("a", fresh, () => same.get("a", fresh, () => 1))),
      "build-failed",
    );
    expect(error.cause).toMatchObject(refused);
    await clock.advance(60_000);
    const sum = cache.get("a", fresh, async () => {
      const values = await Promise.all(others.map((other) => other.get("a", fresh, () => 1)));
      return values.length;
    });
    expect(await clock.until(sum)).toBe(2);
  });

  test("changes nothing where the runtime carries no context along", async () => {
    vi.resetModules();
    const { createCache: createAnew } = await import("../../src/cache.ts");
    vi.stubGlobal("process", { ...globalThis.process, getBuiltinModule: undefined });
    const { clock, redis } = world();
    const cache = createAnew(redis, {}, { ...virtualEnvironment(), clock });
    const waits = { ...fresh, waitMs: 500 };
    const read = cache.get("a", waits, () =>
      cache.get("b", waits, () => cache.get("a", waits, () => 1)).catch(() => 2),
    );
    expect(await clock.until(read)).toBe(2);
    expect(clock.monotonic).toBe(1_000 + 500);
  });

  test("refuses nothing in what a build has left behind, also in builds that go on there", async () => {
    const { clock, process, pass } = world();
    const { cache } = process();
    let left: Promise<number> | undefined;
    const outer = cache.get("a", fresh, async () => {
      left = cache.get("b", fresh, async () => {
        await pass(100);
        return cache.get("a", fresh, () => 2);
      });
      await pass(10);
      return 1;
    });
    expect(await clock.until(outer)).toBe(1);
    expect(await clock.until(left ?? outer)).toBe(1);
  });

  test("runs the build in the nesting of its own caller, whoever else waits for it", async () => {
    const { clock, process } = world();
    const inner = process({ faults: () => ({ requestMs: 20 }) });
    const outer = process({ faults: () => ({ requestMs: 20 }) });
    const leaving = new AbortController();
    const first = outer.cache.get("x", fresh, () =>
      inner.cache.get("b", { ...fresh, signal: leaving.signal }, () => 0).catch(() => 1),
    );
    await clock.advance(25);
    const second = inner.cache.get("b", fresh, () => outer.cache.get("x", fresh, () => 2));
    leaving.abort();
    expect(await clock.until(Promise.all([first, second]))).toEqual([1, 1]);
  });

  test("lets callers that are in no build share one, and changes nothing else", async () => {
    const { clock, process, slow } = world();
    const { cache } = process();
    const build = slow(50, 1);
    const reads = Array.from({ length: 20 }, () => cache.getEntry("a", fresh, build));
    expect((await clock.until(Promise.all(reads))).map(({ value }) => value)).toEqual(Array(20).fill(1));
    expect(build.calls).toBe(1);
    expect(await cache.set("a", 2, fresh)).toBe(true);
    expect(await cache.peek("a")).toMatchObject({ value: 2 });
    await cache.invalidate("a");
    expect(await cache.peek("a")).toBeUndefined();
    await lockError(cache.get("a", fresh, undefined as unknown as () => number), "config");
  });
});
