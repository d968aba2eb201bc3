/** Builds that are slow, and builds that never end. */
import { describe, expect, test } from "vitest";
import { lockError } from "../support/rejection.ts";
import { forever } from "../support/virtual-clock.ts";
import { aged, world } from "./world.ts";

const second = 1_000;
const minute = 60 * second;
const rescue = { freshMs: second, errorMs: minute };

describe("softTimeoutMs", () => {
  const options = { ...rescue, softTimeoutMs: 200 };

  test("gives the old value to those who take it when a build is slow, and lets waitUntil keep the build", async () => {
    const { clock, process, slow } = await aged(rescue);
    const work: Promise<unknown>[] = [];
    const { cache, verbs } = process({ options: { waitUntil: (promise) => void work.push(promise) } });
    const started = clock.monotonic;
    const first = cache.getEntry("k", options, slow(second, "new"));
    expect(await clock.until(first)).toMatchObject({ value: "old", status: "stale", requests: 2 });
    expect(clock.monotonic - started).toBe(200);
    await clock.until(Promise.all(work));
    expect(verbs()).toEqual(["elect", "elect", "commit"]);
    expect(await cache.get("k", options, forever)).toBe("new");
  });

  test("gives it to whoever waits for the build, in whatever process, as long after their own call", async () => {
    const { clock, process, slow } = await aged(rescue);
    const here = process();
    const build = slow(5 * second, "new");
    const started = clock.monotonic;
    const served: [who: string, value: unknown, ms: number, requests: number][] = [];
    const read = async (who: string, { cache }: typeof here): Promise<void> => {
      const { value, requests } = await cache.getEntry("k", { ...options, waitMs: second }, build);
      served.push([who, value, clock.monotonic - started, requests]);
    };
    const strict = here.cache.get("k", { freshMs: second }, build);
    const early = read("early", here);
    await clock.advance(20);
    const late = read("late", here);
    const elsewhere = read("elsewhere", process());
    await clock.advance(300);
    const later = read("after it was slow", here);
    await clock.until(Promise.all([early, late, elsewhere, later]));
    expect(served.map(([who, value, ms]) => [who, value, ms])).toEqual([
      ["early", "old", 200],
      ["late", "old", 200], // by the same look
      ["elsewhere", "old", 220],
      ["after it was slow", "old", 520],
    ]);
    for (const [, , , requests] of served) expect(requests).toBeLessThanOrEqual(3);
    expect(await clock.until(strict)).toBe("new");
    expect(build.calls).toBe(1);
  });

  test("gives nobody what was invalidated meanwhile", async () => {
    const { clock, process, slow } = await aged(rescue);
    const { cache } = process();
    const read = cache.getEntry("k", options, slow(second, "new"));
    await clock.advance(100);
    await process().cache.invalidate("k");
    const { value } = await clock.until(read);
    expect(value).toBe("new");
  });

  test("leaves those who wait where Redis does not answer", async () => {
    const { clock, process, slow } = await aged(rescue);
    const { cache } = process({
      faults: (verb, place) => (verb === "elect" && place > 0 ? { lose: "reply" } : undefined),
    });
    expect(await clock.until(cache.get("k", options, slow(second, "new")))).toBe("new");
    await clock.advance(5 * second); // when the look is given up
    expect(clock.pending).toEqual([]);
  });

  test("costs one look for all who wait when the first of them finds it slow", async () => {
    const { clock, process, slow } = await aged(rescue);
    const { cache, verbs } = process();
    const strict = cache.get("k", { freshMs: second }, slow(second, "new"));
    const reads = Array.from({ length: 50 }, () => cache.get("k", options, forever));
    expect(new Set(await clock.until(Promise.all(reads)))).toEqual(new Set(["old"]));
    expect(verbs()).toEqual(["elect", "elect"]);
    expect(await clock.until(strict)).toBe("new");
  });

  test("gives the build up where nobody waits for it and nothing keeps it", async () => {
    const { clock, process, slow } = await aged(rescue);
    const { cache, verbs } = process();
    let aborted = false;
    const read = cache.getEntry("k", options, ({ signal }) => {
      signal.addEventListener("abort", () => {
        aborted = true;
      });
      return slow(second, "new")();
    });
    expect(await clock.until(read)).toMatchObject({ value: "old", status: "stale" });
    await clock.advance(0);
    expect(aborted).toBe(true);
    expect(verbs()).toEqual(["elect", "elect", "tend"]);
    const next = process().cache.getEntry("k", options, () => "next");
    expect(await clock.until(next)).toMatchObject({ value: "next", status: "built", requests: 2 });
  });

  test("lets the build go on for those who take no old value", async () => {
    const { clock, process, slow } = await aged(rescue);
    const { cache } = process();
    const build = slow(second, "new");
    const quick = cache.getEntry("k", options, build);
    const strict = cache.getEntry("k", { freshMs: second }, build);
    expect(await clock.until(quick)).toMatchObject({ value: "old", status: "stale" });
    expect(await clock.until(strict)).toMatchObject({ value: "new", status: "waited", stored: true });
    expect(build.calls).toBe(1);
  });

  test("changes nothing where there is no old value", async () => {
    const { clock, process, slow } = world();
    const read = process().cache.getEntry("k", options, slow(second, "new"));
    expect(await clock.until(read)).toMatchObject({ value: "new", status: "built", stored: true });
  });
});

describe("hardTimeoutMs", () => {
  test("is when a build has failed: its signal says so, and the back-off begins", async () => {
    const { clock, process } = world();
    const { cache, verbs } = process();
    let reason: unknown;
    const read = cache.get("k", { freshMs: second, hardTimeoutMs: 300 }, ({ signal }) => {
      signal.addEventListener("abort", () => {
        reason = signal.reason;
      });
      return forever();
    });
    const error = await lockError(clock.until(read), "build-failed");
    expect(clock.monotonic).toBe(1_000 + 300);
    expect(error).toMatchObject({ retryAfterMs: second, cause: { code: "timeout" } });
    expect(error.cause).toMatchObject({ message: 'Cannot build "k" as it runs for longer than 300 ms' });
    expect(reason).toBe(error.cause);
    expect(verbs()).toEqual(["elect", "tend"]);
    await lockError(
      process().cache.get("k", { freshMs: second }, () => 1),
      "build-failed",
    );
  });

  test("gives an old value to those who take it", async () => {
    const { clock, process } = await aged(rescue);
    const read = process().cache.getEntry("k", { ...rescue, hardTimeoutMs: 300 }, forever);
    expect(await clock.until(read)).toMatchObject({ value: "old", status: "stale" });
  });

  test("also ends a build whose value a codec takes for ever to write", async () => {
    const { clock, process } = world();
    const codec = { name: "stuck", encode: forever, decode: () => 1 };
    const { cache, verbs } = process({ options: { codec } });
    const read = cache.get("k", { freshMs: second, hardTimeoutMs: 300, leaseMs: 100 }, () => 1);
    expect((await lockError(clock.until(read), "build-failed")).cause).toMatchObject({ code: "timeout" });
    await clock.advance(minute);
    expect(verbs().at(-1)).toBe("tend");
    expect(clock.pending).toEqual([]);
  });

  test("also ends a build without Redis", async () => {
    const { clock, process } = world();
    const { cache } = process({ faults: () => ({ fail: new Error("ECONNREFUSED") }) });
    const read = cache.get("k", { freshMs: second, hardTimeoutMs: 300 }, forever);
    expect((await lockError(clock.until(read), "build-failed")).cause).toMatchObject({ code: "timeout" });
  });

  test("cannot exceed maxHoldMs", async () => {
    const { clock, process } = world();
    const read = process().cache.get(
      "k",
      { freshMs: second, hardTimeoutMs: 900, maxHoldMs: 300, leaseMs: 100 },
      forever,
    );
    await lockError(clock.until(read), "build-failed");
    expect(clock.monotonic).toBe(1_000 + 300);
  });

  test("gives its caller the value that another has stored meanwhile", async () => {
    const { clock, process } = world();
    const { cache, verbs } = process();
    const read = cache.getEntry("k", { freshMs: minute, hardTimeoutMs: 300 }, forever);
    await clock.advance(100);
    await process().cache.set("k", "newer", { freshMs: minute });
    expect(await clock.until(read)).toMatchObject({ value: "newer", stored: true });
    expect(verbs()).toEqual(["elect", "tend"]);
  });

  test("leaves no timer behind where the build ends in time", async () => {
    const { clock, process, slow } = world();
    const options = { freshMs: second, softTimeoutMs: 200, hardTimeoutMs: 300 };
    await clock.until(process().cache.get("k", options, slow(100, 1)));
    expect(clock.pending).toEqual([]);
  });
});
