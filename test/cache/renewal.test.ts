/** Builds that take longer than a lease. */
import { expect, test } from "vitest";
import type { BuildContext } from "../../src/cache/reader.ts";
import { lockError } from "../support/rejection.ts";
import { forever } from "../support/virtual-clock.ts";
import { world } from "./world.ts";

const second = 1_000;
const options = { freshMs: 60 * second, leaseMs: second };

test("a normal build costs no renewal", async () => {
  const { clock, process, slow } = world();
  const { cache, verbs } = process();
  await clock.until(cache.get("k", options, slow(590, 1)));
  expect(verbs()).toEqual(["elect", "commit"]);
  expect(clock.pending).toEqual([]);
});

test("a long build is renewed whenever 60 % of its lease have passed, and nobody else builds", async () => {
  const { clock, process, slow } = world();
  const a = process();
  const build = slow(3 * second, 1);
  const read = a.cache.getEntry("k", options, build);
  await clock.advance(10);
  const elsewhere = process().cache.getEntry("k", options, build);
  expect(await clock.until(read)).toMatchObject({ status: "built", stored: true, requests: 6 });
  expect(await clock.until(elsewhere)).toMatchObject({ value: 1, status: "waited" });
  expect(build.calls).toBe(1);
  expect(a.verbs()).toEqual(["elect", "tend", "tend", "tend", "tend", "commit"]);
});

test("a renewal without an answer is tried again before the lease ends", async () => {
  const { clock, process, slow } = world();
  const a = process({
    faults: (verb, place) => (verb === "tend" && place < 2 ? { fail: new Error("reset") } : undefined),
  });
  const read = a.cache.getEntry("k", options, slow(3 * second, 1));
  await clock.advance(10);
  const elsewhere = process().cache.getEntry("k", options, slow(10, 2));
  expect(await clock.until(read)).toMatchObject({ value: 1, stored: true });
  expect((await clock.until(elsewhere)).value).toBe(1);
});

test("a renewal that hangs holds nobody beyond waitMs", async () => {
  const { clock, process, slow } = world();
  const { cache } = process({ faults: (verb) => (verb === "tend" ? { lose: "reply" } : undefined) });
  const build = cache.get("k", { ...options, leaseMs: 300 }, slow(second, "new"));
  await clock.advance(100);
  const started = clock.monotonic;
  const read = cache.get("k", { ...options, waitMs: 200 }, slow(10, "other"));
  await lockError(clock.until(read), "timeout");
  expect(clock.monotonic - started).toBe(200);
  expect(await clock.until(build)).toBe("new");
});

test("whoever has waited long enough takes what a commit under way brings, whenever a renewal is answered", async () => {
  const { clock, process, slow } = world();
  const { cache } = process({ faults: (verb) => (verb === "elect" ? undefined : { replyMs: 100 }) });
  const read = cache.get("k", options, slow(650, 1));
  await clock.advance(10);
  const other = cache.getEntry("k", { ...options, waitMs: 670 }, slow(10, 2));
  expect(await clock.until(other)).toMatchObject({ value: 1, status: "waited" });
  expect(await read).toBe(1);
});

test("a build that has been overtaken is told so, and its caller gets the newer value", async () => {
  const { clock, process, slow } = world();
  const a = process();
  let reason: unknown;
  const read = a.cache.getEntry("k", options, async ({ signal }) => {
    signal.addEventListener("abort", () => {
      reason = signal.reason;
    });
    return slow(3 * second, "old")();
  });
  await clock.advance(100);
  await process().cache.set("k", "new", options);
  await clock.advance(600);
  expect(reason).toMatchObject({ name: "AbortError" });
  expect(await clock.until(read)).toMatchObject({ value: "new", status: "waited" });
  expect(a.verbs()).toEqual(["elect", "tend", "tend", "elect"]);
});

test("a build that stops when it is told so lets its readers look again", async () => {
  const { clock, process, slow } = world();
  const a = process();
  const obedient = ({ signal }: BuildContext): Promise<string> =>
    new Promise((resolve, reject) => {
      signal.addEventListener("abort", () => reject(signal.reason));
      void slow(3 * second, "old")().then(resolve);
    });
  const read = a.cache.getEntry("k", options, obedient);
  await clock.advance(100);
  await process().cache.set("k", "new", options);
  expect(await clock.until(read)).toMatchObject({ value: "new" });
  expect(clock.monotonic).toBe(1_000 + 600);
});

test("32: a build that hangs has failed at maxHoldMs: it is told so, and others may build", async () => {
  const { clock, process } = world();
  const a = process();
  let aborted = false;
  const read = a.cache.get("k", { ...options, maxHoldMs: 5 * second }, ({ signal }) => {
    signal.addEventListener("abort", () => {
      aborted = true;
    });
    return new Promise(() => {});
  });
  const error = await lockError(clock.until(read), "build-failed");
  expect(clock.monotonic).toBe(1_000 + 5 * second);
  expect(aborted).toBe(true);
  expect(error.cause).toMatchObject({ code: "timeout" });
  expect(a.verbs().at(-1)).toBe("tend");
  await clock.advance(second);
  expect(await process().cache.getEntry("k", options, () => 2)).toMatchObject({ value: 2, status: "built" });
  await clock.advance(60 * second);
  expect(a.verbs().filter((verb) => verb === "tend")).toHaveLength(9);
});

test("maxHoldMs is 60 s, 25 s with waitUntil, and never less than a lease", async () => {
  const cases = [
    [{}, 60],
    [{ waitUntil: () => {} }, 25],
    [{ leaseMs: 90 * second }, 90],
    [{ maxHoldMs: 3 * second }, 3],
  ] as const;
  for (const [more, seconds] of cases) {
    const { clock, process } = world();
    await lockError(clock.until(process().cache.get("k", { ...options, ...more }, forever)), "build-failed");
    expect(clock.monotonic).toBe(1_000 + seconds * second);
  }
});

test("a lease that lasts as long as its build may is never renewed, and so ends with its process", async () => {
  const { clock, process, slow } = world();
  const { cache, verbs } = process();
  const whole = { ...options, leaseMs: 5 * second, maxHoldMs: 5 * second };
  expect(await clock.until(cache.get("k", whole, slow(4.9 * second, 1)))).toBe(1);
  expect(verbs()).toEqual(["elect", "commit"]);
});
