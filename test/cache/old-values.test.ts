/** Values that are no longer fresh: who gets them, for how long, and what a soft invalidation leaves. */
import { describe, expect, test } from "vitest";
import { lockError } from "../support/rejection.ts";
import { forever } from "../support/virtual-clock.ts";
import { aged, world } from "./world.ts";

const second = 1_000;
const minute = 60 * second;
const stale = { freshMs: second, staleMs: minute };
const rescue = { freshMs: second, errorMs: minute };
const keeps = { waitUntil: () => {} };
const broken = (): Promise<never> => Promise.reject(new Error("no"));

describe("within staleMs", () => {
  test("a reader with waitUntil gets the old value at once, and its build goes on behind", async () => {
    const { clock, process, slow } = await aged(stale);
    const work: Promise<unknown>[] = [];
    const { cache, verbs } = process({ options: { waitUntil: (promise) => void work.push(promise) } });
    const build = slow(300, "new");
    const started = clock.monotonic;
    expect(await clock.until(cache.getEntry("k", stale, build))).toMatchObject({
      value: "old",
      status: "stale",
      stored: true,
      requests: 1,
    });
    expect(clock.monotonic).toBe(started);
    await clock.until(Promise.all(work));
    expect(build.calls).toBe(1);
    expect(verbs()).toEqual(["elect", "commit"]);
    expect(await cache.getEntry("k", stale, build)).toMatchObject({ value: "new", status: "hit" });
  });

  test("without it a reader builds in the foreground, and the others here and elsewhere get the old value at once", async () => {
    const { clock, process, slow } = await aged(stale);
    const a = process();
    const b = process();
    const started = clock.monotonic;
    const first = a.cache.getEntry("k", stale, slow(300, "new"));
    const sameTurn = a.cache.getEntry("k", stale, slow(300, "other"));
    expect(await clock.until(sameTurn)).toMatchObject({ value: "old", status: "stale" });
    await clock.advance(100);
    for (const { cache } of [a, b]) {
      const read = cache.getEntry("k", stale, slow(300, "other"));
      expect(await clock.until(read)).toMatchObject({ value: "old", status: "stale", requests: 1 });
    }
    expect(clock.monotonic).toBe(started + 100);
    expect(await clock.until(first)).toMatchObject({ value: "new", status: "built" });
    expect(a.events.map(({ type }) => type)).toEqual(["elected", "stale", "stale", "built"]);
  });

  test("a reader is given it at once also where others of its process wait, as they take none", async () => {
    const { clock, process, slow } = await aged(stale);
    const [a, b] = [process(), process()];
    const strict = { freshMs: stale.freshMs };
    const built = a.cache.get("k", strict, slow(3_000, "new"));
    await clock.advance(50);
    const waited = b.cache.get("k", strict, forever);
    await clock.advance(50);
    for (const { cache } of [a, b]) {
      const started = clock.monotonic;
      const read = cache.getEntry("k", { ...stale, waitMs: 0 }, forever);
      expect(await clock.until(read)).toMatchObject({ value: "old", status: "stale", requests: 1 });
      expect(clock.monotonic).toBe(started);
    }
    expect(await clock.until(Promise.all([built, waited]))).toEqual(["new", "new"]);
  });

  test("a reader that takes none waits for the new one", async () => {
    const { clock, process, slow } = await aged(stale);
    const building = process().cache.getEntry("k", stale, slow(300, "new"));
    await clock.advance(100);
    const waiting = process().cache.getEntry("k", { freshMs: second }, slow(300, "other"));
    expect(await clock.until(waiting)).toMatchObject({ value: "new", status: "waited" });
    await building;
  });

  test("a reader gets it at once while another process builds, also where one that asked with it takes none", async () => {
    const { clock, process, slow } = await aged(stale);
    const building = process().cache.getEntry("k", stale, slow(300, "new"));
    await clock.advance(100);
    const { cache, verbs } = process();
    const strict = cache.getEntry("k", { freshMs: second }, slow(300, "other"));
    const sameTurn = cache.getEntry("k", stale, slow(300, "other"));
    const started = clock.monotonic;
    expect(await clock.until(sameTurn)).toMatchObject({ value: "old", status: "stale" });
    expect(clock.monotonic).toBe(started);
    expect(verbs()).toEqual(["elect"]);
    expect(await clock.until(strict)).toMatchObject({ value: "new", status: "waited" });
    await building;
  });

  test("22: a build behind a response that is cut off is taken over when its lease is over", async () => {
    const { clock, process, slow } = await aged(stale);
    const cut = process({ options: keeps, faults: (verb) => (verb === "elect" ? undefined : { lose: "request" }) });
    expect(await cut.cache.get("k", { ...stale, leaseMs: second }, () => new Promise(() => {}))).toBe("old");
    const { cache } = process({ options: keeps });
    const build = slow(10, "new");
    await clock.advance(second - 1);
    expect(await cache.get("k", stale, build)).toBe("old");
    expect(build.calls).toBe(0);
    await clock.advance(1);
    expect(await cache.get("k", stale, build)).toBe("old");
    await clock.advance(10);
    expect(build.calls).toBe(1);
    expect(await cache.get("k", stale, build)).toBe("new");
  });

  test("a build is handed the old value", async () => {
    const { process } = await aged(stale);
    expect(await process().cache.get("k", stale, (context) => `${String(context.stale)}er`)).toBe("older");
  });

  test("a build that fails gives the old value to all but those who take none", async () => {
    const { clock, process, slow } = await aged({ ...stale, errorMs: minute });
    const both = { ...stale, errorMs: minute };
    const a = process();
    const failing = a.cache.getEntry("k", both, async () => {
      await slow(100, 0)();
      return broken();
    });
    expect(await clock.until(failing)).toMatchObject({ value: "old", status: "stale", requests: 2 });
    expect(a.events.map(({ type }) => type)).toEqual(["elected", "build-failed", "stale"]);
    expect(await process().cache.getEntry("k", both, broken)).toMatchObject({ value: "old", status: "stale" });
    expect(await process().cache.getEntry("k", stale, broken)).toMatchObject({ value: "old", status: "stale" });
    await lockError(process().cache.get("k", { freshMs: second }, broken), "build-failed");
  });

  test("once staleMs is over, a read builds anew", async () => {
    const { clock, process } = await aged(stale);
    await clock.advance(minute);
    const entry = process().cache.getEntry("k", { ...stale, ...keeps }, () => "new");
    expect(await entry).toMatchObject({ value: "new", status: "built" });
  });

  test("a hard invalidation drops it, also for the build under way that would have served it", async () => {
    const { clock, process, slow } = await aged(stale);
    const a = process();
    const building = a.cache.getEntry("k", stale, slow(300, "older"));
    await clock.advance(100);
    await process().cache.invalidate("k");
    const later = a.cache.getEntry("k", stale, () => "new");
    expect(await clock.until(later)).toMatchObject({ value: "new", status: "built" });
    expect(await clock.until(building)).toMatchObject({ value: "new", status: "waited" });
  });
});

describe("within errorMs", () => {
  test("18: nobody gets the old value while a build runs, and all who take it get it when it fails", async () => {
    const { clock, process, slow } = await aged(rescue);
    const a = process();
    const started = clock.monotonic;
    const failing = async (): Promise<string> => {
      await slow(100, 0)();
      return broken();
    };
    const first = a.cache.getEntry("k", rescue, failing);
    const sameTurn = a.cache.getEntry("k", rescue, failing);
    const strict = lockError(a.cache.get("k", { freshMs: second }, failing), "build-failed");
    await clock.advance(50);
    const joined = a.cache.getEntry("k", rescue, failing);
    for (const read of [first, sameTurn, joined]) {
      expect(await clock.until(read)).toMatchObject({ value: "old", status: "stale" });
    }
    await strict;
    expect(clock.monotonic).toBe(started + 100);
    expect(a.verbs()).toEqual(["elect", "tend"]);
    expect(await process().cache.getEntry("k", rescue, failing)).toMatchObject({ value: "old", status: "stale" });
  });

  test("each gets it once where Redis does not answer that the build has failed", async () => {
    const both = { ...stale, errorMs: minute };
    const { clock, process } = await aged(both);
    const { cache, events } = process({ faults: (verb) => (verb === "tend" ? { lose: "request" } : undefined) });
    const reads = [cache.getEntry("k", both, broken), cache.getEntry("k", both, broken)];
    for (const read of reads) expect(await clock.until(read)).toMatchObject({ value: "old", status: "stale" });
    expect(events.map(({ type }) => type)).toEqual(["elected", "stale", "build-failed", "stale"]);
    const rescued = process({ faults: (verb) => (verb === "tend" ? { lose: "request" } : undefined) });
    const read = rescued.cache.getEntry("k", { ...rescue, leaseMs: second }, broken);
    expect(await clock.until(read)).toMatchObject({ value: "old", status: "stale" });
  });

  test("a build that has come to a value gives that, although nobody knows whether it is stored", async () => {
    const { clock, process } = await aged(rescue);
    const { cache } = process({ faults: (verb) => (verb === "commit" ? { lose: "request" } : undefined) });
    const entry = await clock.until(cache.getEntry("k", rescue, () => "new"));
    expect(entry).toMatchObject({ value: "new", status: "built", stored: false });
  });

  test("it is gone when it has ended, and five failures have not moved that", async () => {
    const { clock, process } = await aged(rescue);
    const { cache } = process();
    for (let i = 0; i < 5; i += 1) {
      expect(await cache.get("k", rescue, broken)).toBe("old");
      await clock.advance(11 * second);
    }
    await clock.advance(4 * second);
    await lockError(cache.get("k", rescue, broken), "build-failed");
  });

  test("18: an invalidation leaves no old value to be served on an error", async () => {
    const { process } = await aged(rescue);
    const { cache } = process();
    await cache.invalidate("k");
    await lockError(cache.get("k", rescue, broken), "build-failed");
  });
});

describe("a soft invalidation", () => {
  test("keeps the value to be served within staleMs, and voids builds under way", async () => {
    const { clock, process, slow } = world();
    const a = process();
    await a.cache.set("k", "old", stale);
    await a.cache.invalidate("k", { soft: true });
    const building = a.cache.getEntry("k", stale, slow(300, "void"));
    await clock.advance(100);
    await process().cache.invalidate("k", { soft: true });
    expect(await process().cache.getEntry("k", { ...stale, ...keeps }, () => "new")).toMatchObject({ value: "old" });
    expect((await clock.until(building)).value).toBe("new");
  });

  test("makes the next reader build that takes no old value", async () => {
    const { cache } = world().process();
    await cache.set("k", "old", stale);
    await cache.invalidate("k", { soft: true });
    expect(await cache.getEntry("k", { freshMs: minute, ...keeps }, () => "new")).toMatchObject({ status: "built" });
  });

  test("counts the age from itself, and does not make the value live longer", async () => {
    const { clock, process } = world();
    const { cache } = process();
    await cache.set("k", "old", { freshMs: minute, staleMs: second });
    await cache.invalidate("k", { soft: true });
    await clock.advance(2 * second);
    expect(await cache.peek("k")).toMatchObject({ value: "old" });
    await cache.invalidate("k", { soft: true });
    expect(await cache.getEntry("k", { freshMs: second, staleMs: second }, () => "new")).toMatchObject({
      value: "new",
    });
    await cache.invalidate("k", { soft: true });
    await clock.advance(minute);
    expect(await cache.peek("k")).toBeUndefined();
  });

  test("18: is never served as fresh", async () => {
    const { process } = world();
    const { cache } = process();
    await cache.set("k", "old", { freshMs: minute, staleMs: minute });
    await cache.invalidate("k", { soft: true });
    expect(await cache.peek("k")).toMatchObject({ value: "old", freshMs: 0 });
    expect(await cache.get("k", { freshMs: minute }, () => "new")).toBe("new");
  });
});
