/** Builds that ask for their own key. */
import { describe, expect, test } from "vitest";
import { refusal, world } from "./world.ts";

const fresh = { freshMs: 60_000 };
const refused = { code: "config", message: 'Cannot get "a" as its own build asks for it' };

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
      const error = await refusal(clock.until(read), "build-failed");
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
    const error = await refusal(clock.until(read), "build-failed");
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
    await refusal(cache.get("a", fresh, undefined as unknown as () => number), "config");
  });
});
