/** Readers in one process: who shares whose requests, and who may not. */
import { describe, expect, test } from "vitest";
import { lockError } from "../support/rejection.ts";
import { world } from "./world.ts";

const fresh = { freshMs: 60_000 };

/** Replies are under way for this long, and requests take no time. */
const lateReplies = { faults: () => ({ replyMs: 50 }) };

describe("readers of one process", () => {
  test("share one request where they ask in the same turn, and none of them pays for another", async () => {
    const { clock, process, slow } = world();
    const { cache, verbs, events } = process();
    const build = slow(20, 7);
    const read = () => cache.getEntry("k", fresh, build);
    const entries = await clock.until(Promise.all(Array.from({ length: 100 }, read)));
    expect(new Set(entries.map(({ value }) => value))).toEqual(new Set([7]));
    expect(entries.map(({ status }) => status)).toEqual(["built", ...Array<string>(99).fill("waited")]);
    expect(entries.map(({ requests }) => requests)).toEqual([2, ...Array<number>(99).fill(0)]);
    expect(verbs()).toEqual(["elect", "commit"]);
    expect(build.calls).toBe(1);

    const hits = await clock.until(Promise.all(Array.from({ length: 100 }, read)));
    expect(new Set(hits.map(({ status }) => status))).toEqual(new Set(["hit"]));
    expect(verbs()).toEqual(["elect", "commit", "elect"]);
    expect(events.filter(({ type }) => type === "hit")).toHaveLength(100);
  });

  test("may not take an answer that was under way when they came, but ask together for their own", async () => {
    const { clock, process } = world();
    const a = process(lateReplies);
    const b = process();
    await b.cache.set("k", "old", fresh);
    const early = a.cache.get("k", fresh, () => "built");
    await clock.advance(10);
    await b.cache.set("k", "new", fresh);
    const late = Array.from({ length: 20 }, () => a.cache.getEntry("k", fresh, () => "built"));
    expect(await clock.until(early)).toBe("old");
    const entries = await clock.until(Promise.all(late));
    expect(entries.map(({ value, status }) => [value, status])).toEqual(Array(20).fill(["new", "hit"]));
    expect(entries.map(({ requests }) => requests)).toEqual([1, ...Array<number>(19).fill(0)]);
    expect(a.verbs()).toEqual(["elect", "elect"]);
  });

  test("share a build that they joined while it ran, as its commit comes after them", async () => {
    const { clock, process, slow } = world();
    const { cache, verbs } = process(lateReplies);
    const build = slow(100, 1);
    const first = cache.getEntry("k", fresh, build);
    await clock.advance(60); // the election is won, the build runs
    const second = cache.getEntry("k", fresh, build);
    expect(await clock.until(first)).toMatchObject({ value: 1, status: "built" });
    expect(await clock.until(second)).toMatchObject({ value: 1, status: "waited", stored: true, requests: 0 });
    expect(verbs()).toEqual(["elect", "commit"]);
  });

  test("share it too where they came while its election was under way", async () => {
    const { clock, process, slow } = world();
    const { cache, verbs } = process(lateReplies);
    const build = slow(100, 1);
    const first = cache.getEntry("k", fresh, build);
    await clock.advance(10);
    const second = cache.getEntry("k", fresh, build);
    await clock.until(Promise.all([first, second]));
    expect(verbs()).toEqual(["elect", "commit"]);
  });

  test("ask for themselves where they came when its commit was under way", async () => {
    const { clock, process, slow } = world();
    const a = process(lateReplies);
    const first = a.cache.getEntry("k", fresh, slow(100, "old"));
    await clock.advance(160); // the commit has run, its reply is under way
    await process().cache.invalidate("k");
    const second = a.cache.getEntry("k", fresh, () => "new");
    expect(await clock.until(first)).toMatchObject({ value: "old" });
    expect(await clock.until(second)).toMatchObject({ value: "new", status: "built" });
  });

  test("leave a refused value to its builder's own caller, and build anew", async () => {
    const { clock, process, slow } = world();
    const a = process();
    const first = a.cache.getEntry("k", fresh, slow(100, "old"));
    await clock.advance(50);
    const second = a.cache.getEntry("k", fresh, () => "new");
    await process().cache.invalidate("k");
    const third = a.cache.getEntry("k", fresh, () => "newer");
    expect(await clock.until(first)).toMatchObject({ value: "old", status: "built", stored: false });
    expect(await clock.until(second)).toMatchObject({ value: "new", status: "built", stored: true });
    expect(await clock.until(third)).toMatchObject({ value: "new", status: "waited" });
  });

  test("leave it to that caller also where they asked with it", async () => {
    const { clock, process, slow } = world();
    const a = process();
    const first = a.cache.getEntry("k", fresh, slow(100, "old"));
    const sameTurn = a.cache.getEntry("k", fresh, () => "new");
    await clock.advance(50);
    await process().cache.invalidate("k");
    expect(await clock.until(first)).toMatchObject({ value: "old", status: "built", stored: false });
    expect(await clock.until(sameTurn)).toMatchObject({ value: "new", status: "built", stored: true });
  });

  test("share a value that may not have been stored only where they came before its build began", async () => {
    const { clock, process, slow } = world();
    const a = process({ faults: (verb, place) => (verb === "commit" && place < 2 ? { lose: "request" } : undefined) });
    const first = a.cache.getEntry("k", fresh, slow(100, "old"));
    const early = a.cache.getEntry("k", fresh, () => "new");
    await clock.advance(50);
    await process().cache.invalidate("k");
    const late = a.cache.getEntry("k", fresh, () => "new");
    expect(await clock.until(first)).toMatchObject({ value: "old", status: "built", stored: false });
    expect(await clock.until(early)).toMatchObject({ value: "old", status: "waited", stored: false });
    expect(await clock.until(late)).toMatchObject({ value: "new", status: "built", stored: true });
  });

  test("are all given the newer value that comes with a refusal", async () => {
    const { clock, process, slow } = world();
    const a = process();
    const first = a.cache.getEntry("k", fresh, slow(100, "old"));
    await clock.advance(50);
    const second = a.cache.getEntry("k", fresh, () => "other");
    await process().cache.set("k", "new", fresh);
    for (const read of [first, second]) {
      expect(await clock.until(read)).toMatchObject({ value: "new", status: "waited", stored: true });
    }
    expect(a.verbs()).toEqual(["elect", "commit"]);
  });

  test("join what began after an invalidation, also when what was under way before it has ended", async () => {
    const { clock, process, slow } = world();
    const { cache } = process();
    const before = cache.get("k", fresh, slow(100, "old"));
    await clock.advance(50);
    await cache.invalidate("k");
    const after = cache.getEntry("k", fresh, slow(100, "new"));
    expect(await clock.until(before)).toBe("old");
    const third = cache.getEntry("k", fresh, slow(100, "other"));
    expect(await clock.until(after)).toMatchObject({ value: "new", status: "built" });
    expect(await clock.until(third)).toMatchObject({ value: "new", status: "waited", requests: 0 });
  });

  test.each(["invalidate", "set"] as const)("do not join what was under way when %s resolved", async (verb) => {
    const { clock, process, slow } = world();
    const { cache, verbs } = process();
    const first = cache.getEntry("k", fresh, slow(1_000, "old"));
    await clock.advance(50);
    if (verb === "set") await cache.set("k", "new", fresh);
    else await cache.invalidate("k");
    expect(
      await clock.until(
        cache.get("k", fresh, () => "new"),
        10,
      ),
    ).toBe("new");
    expect(await clock.until(first)).toMatchObject({ value: "new", status: "waited" });
    expect(verbs().filter((sent) => sent === "elect")).toHaveLength(verb === "set" ? 3 : 2);
  });

  test("do not join it either when the invalidation had no answer", async () => {
    const { clock, process, slow } = world();
    const { cache } = process({ faults: (verb) => (verb === "invalidate" ? { lose: "reply" } : undefined) });
    const first = cache.getEntry("k", fresh, slow(40_000, "old"));
    await clock.advance(50);
    await lockError(clock.until(cache.invalidate("k")), "unavailable");
    expect(
      await clock.until(
        cache.get("k", fresh, () => "new"),
        10,
      ),
    ).toBe("new");
    expect(await clock.until(first)).toMatchObject({ value: "new", status: "waited" });
  });

  test("keep their own waitMs and their own signal", async () => {
    const { clock, process, slow } = world();
    const a = process();
    const b = process();
    const building = a.cache.get("k", fresh, slow(5_000, 1));
    await clock.advance(10);
    const controller = new AbortController();
    const other = () => expect.fail("another builds it");
    const short = b.cache.get("k", { ...fresh, waitMs: 1_000 }, other);
    const aborted = b.cache.get("k", { ...fresh, signal: controller.signal }, other);
    const patient = b.cache.get("k", fresh, other);
    const gone = lockError(aborted, "aborted");
    const over = lockError(short, "timeout");
    await clock.advance(500);
    controller.abort(new Error("enough"));
    expect((await gone).cause).toEqual(new Error("enough"));
    const error = await clock.until(over, 600);
    expect(clock.monotonic).toBe(1_000 + 10 + 1_000);
    expect(error.message).toBe('Cannot get "k" as another builds it for longer than 1000 ms');
    expect(error.cause).toMatchObject({ code: "contended" });
    expect(error.retryAfterMs).toBeGreaterThan(0);
    expect(await clock.until(patient)).toBe(1);
    expect(await building).toBe(1);
  });

  test("go on waiting, and build themselves, when the one who asked first has gone", async () => {
    const { clock, process, slow } = world();
    const a = process({ faults: (verb) => (verb === "elect" ? undefined : { lose: "request" }) });
    const b = process();
    const controller = new AbortController();
    const stuck = a.cache.get("k", { ...fresh, leaseMs: 2_000, signal: controller.signal }, slow(1e6, 0));
    await clock.advance(10);
    const first = lockError(
      b.cache.get("k", { ...fresh, waitMs: 500 }, () => "first's"),
      "timeout",
    );
    const second = b.cache.getEntry("k", { ...fresh, waitMs: 5_000 }, () => "second's");
    expect(await clock.until(second)).toMatchObject({ value: "second's", status: "built" });
    await first;
    controller.abort();
    await lockError(stuck, "aborted");
  });

  test("keep a build going whose own caller has aborted", async () => {
    const { clock, process, pass } = world();
    const { cache, verbs } = process();
    const controller = new AbortController();
    let silent = true;
    const build = async ({ signal }: { signal: AbortSignal }): Promise<number> => {
      signal.addEventListener("abort", () => {
        silent = false;
      });
      await pass(300);
      return 1;
    };
    const first = lockError(cache.get("k", { ...fresh, signal: controller.signal }, build), "aborted");
    await clock.advance(50);
    const second = cache.getEntry("k", fresh, build);
    await clock.advance(50);
    controller.abort();
    await first;
    expect(await clock.until(second)).toMatchObject({ value: 1, status: "waited" });
    expect(silent).toBe(true);
    expect(verbs()).toEqual(["elect", "commit"]);
  });

  test("do not join a flight that its last reader has left", async () => {
    const { clock, process, slow } = world();
    const { cache } = process({
      faults: (verb, place) => (place === 0 && verb === "elect" ? { replyMs: 100 } : undefined),
    });
    const controller = new AbortController();
    const left = lockError(
      cache.get("k", { ...fresh, signal: controller.signal }, () => 1),
      "aborted",
    );
    await clock.advance(50);
    controller.abort();
    const next = cache.getEntry("k", fresh, slow(10, 2));
    await left;
    expect(await clock.until(next)).toMatchObject({ value: 2, status: "built", stored: true });
  });

  test("nor one that has just been left, which would ask without pauses", async () => {
    const { clock, process, slow } = world();
    const building = process().cache.get("k", fresh, slow(500, 1));
    await clock.advance(10);
    const { cache, client } = process({ faults: () => ({ replyMs: 1 }) });
    const controller = new AbortController();
    const left = cache.getEntry("k", { ...fresh, signal: controller.signal }, () => 2);
    const next = left.catch(() => cache.getEntry("k", fresh, () => 2));
    await clock.advance(200);
    controller.abort();
    expect(await clock.until(next)).toMatchObject({ value: 1, status: "waited" });
    expect(client.sent.length).toBeLessThan(10);
    await building;
  });

  test("look again where they came after a build began whose failure nobody may have heard of", async () => {
    const { clock, process, pass } = world();
    const { cache } = process({ faults: (verb) => (verb === "tend" ? { lose: "request" } : undefined) });
    const failing = async (): Promise<never> => {
      await pass(100);
      throw new Error("no");
    };
    const options = { ...fresh, leaseMs: 1_000 };
    const first = lockError(cache.get("k", options, failing), "build-failed");
    const sameTurn = lockError(cache.get("k", options, failing), "build-failed");
    await clock.advance(50);
    const later = cache.getEntry("k", options, () => 2);
    expect(await clock.until(later)).toMatchObject({ value: 2, status: "built" });
    await Promise.all([first, sameTurn]);
  });

  test("are told of a failure they asked with, also where an invalidation leaves no back-off", async () => {
    const { clock, process, pass } = world();
    const { cache, events } = process();
    const failing = async (): Promise<never> => {
      await pass(100);
      throw new Error("no");
    };
    const first = lockError(cache.get("k", fresh, failing), "build-failed");
    const sameTurn = lockError(
      cache.get("k", fresh, () => 2),
      "build-failed",
    );
    await clock.advance(50);
    await process().cache.invalidate("k");
    await clock.until(Promise.all([first, sameTurn]));
    expect(events.at(-1)).toMatchObject({ type: "build-failed", retryAfterMs: 0 });
  });

  test("see a failed build as one failure, with its cause", async () => {
    const { clock, process, pass } = world();
    const { cache, verbs, events } = process();
    const cause = new Error("the database is down");
    const build = async (): Promise<number> => {
      await pass(100);
      throw cause;
    };
    const first = lockError(cache.get("k", fresh, build), "build-failed");
    await clock.advance(50);
    const second = lockError(cache.get("k", fresh, build), "build-failed");
    await clock.advance(50);
    expect(await first).toMatchObject({ retryAfterMs: 1_000, cause, message: 'Cannot get "k" as its build failed' });
    expect(await second).toMatchObject({ retryAfterMs: 1_000, cause });
    expect(verbs()).toEqual(["elect", "tend"]);
    expect(events.at(-1)).toMatchObject({ type: "build-failed", retryAfterMs: 1_000, nodes: [{ outcome: "failed" }] });
  });
});

describe("requests on a host that keeps them apart", () => {
  test("share nothing but Redis", async () => {
    const { clock, process, slow } = world();
    const { cache, verbs } = process({ isolatesRequests: true });
    const build = slow(300, 1);
    const entries = await clock.until(
      Promise.all([cache.getEntry("k", fresh, build), cache.getEntry("k", fresh, build)]),
    );
    expect(entries.map(({ status }) => status)).toEqual(["built", "waited"]);
    expect(entries.every(({ requests }) => requests > 0)).toBe(true);
    expect(build.calls).toBe(1);
    expect(verbs().filter((verb) => verb === "elect").length).toBeGreaterThan(2);
  });

  test("hand over what may outlive them", async () => {
    const { clock, process, slow } = world();
    const work: Promise<unknown>[] = [];
    const { cache } = process({ isolatesRequests: true, options: { waitUntil: (promise) => void work.push(promise) } });
    const controller = new AbortController();
    const read = lockError(cache.get("k", { ...fresh, signal: controller.signal }, slow(300, 1)), "aborted");
    await clock.advance(100);
    controller.abort();
    await read;
    expect(work).toHaveLength(1);
    await clock.until(Promise.all(work));
    expect(await cache.getEntry("k", fresh, () => 2)).toMatchObject({ value: 2, status: "built" });
  });
});
