/**
 * The ways a guarded cache can go wrong, each by its number in the design: what is about a script alone stands in
 * `scripts.test.ts`, what needs a real server under load in `stress.test.ts`, what is killed for real in `deaths.test.ts`.
 */
import { describe, expect, test } from "vitest";
import { ReplyError } from "../../src/command.ts";
import { LockError } from "../../src/errors.ts";
import type { Fault } from "../support/faulty-client.ts";
import { lockError } from "../support/rejection.ts";
import { type Faults, verbOf, type World, world } from "./world.ts";

const fresh = { freshMs: 60_000 };
const second = 1_000;

/** A fault of the first command of a kind only. */
const once =
  (kind: string, fault: Fault): Faults =>
  (verb, place) =>
    verb === kind && place === 0 ? fault : undefined;

const always =
  (kind: string, fault: Fault): Faults =>
  (verb) =>
    verb === kind ? fault : undefined;

describe("an election", () => {
  test("2: whose reply was lost is found again by the same token, and nobody has to wait", async () => {
    const { clock, process } = world();
    const { cache, client, verbs } = process({ faults: once("elect", { lose: "reply" }) });
    const started = clock.monotonic;
    expect(await clock.until(cache.getEntry("k", fresh, () => 1))).toMatchObject({
      status: "built",
      stored: true,
      requests: 3,
    });
    expect(clock.monotonic - started).toBe(2_500);
    expect(verbs()).toEqual(["elect", "elect", "commit"]);
    expect(client.sent[0]).toEqual(client.sent[1]);
  });

  test("2: that nobody knows of costs others its lease and 50 ms, no more", async () => {
    const { clock, process } = world();
    const ghost = process({ faults: always("elect", { lose: "reply" }) });
    const read = ghost.cache.get("k", { ...fresh, leaseMs: 8 * second, onRedisDown: "throw" }, () => 0);
    await lockError(clock.until(read), "unavailable");
    const started = clock.monotonic;
    const { cache } = process();
    expect(await clock.until(cache.getEntry("k", fresh, () => 1))).toMatchObject({ value: 1, status: "built" });
    expect(clock.monotonic - started).toBeLessThanOrEqual(8 * second - 2_500 + 50);
  });

  test("10: whose winner dies lets one of 50 who wait build once its lease is over", async () => {
    const { clock, process, slow } = world();
    let alive = true;
    const dying = process({ faults: () => (alive ? undefined : { lose: "request" }) });
    const lost = dying.cache.get("k", { ...fresh, leaseMs: 2 * second }, slow(500, 0));
    void lost.catch(() => {});
    await clock.advance(100);
    alive = false;
    const build = slow(200, 1);
    const waiting = Array.from({ length: 50 }, () => process().cache.getEntry("k", fresh, build));
    const entries = await clock.until(Promise.all(waiting));
    expect(build.calls).toBe(1);
    expect(entries.filter(({ status }) => status === "built")).toHaveLength(1);
    expect(entries.every(({ value }) => value === 1)).toBe(true);
  });

  test("11: is not stormed at the end of a lease: those who wait come one by one, and one wins", async () => {
    const { clock, process, slow } = world();
    const dying = process({ faults: (verb) => (verb === "elect" ? undefined : { lose: "request" }) });
    void dying.cache.get("k", { ...fresh, leaseMs: 2 * second }, slow(1e6, 0)).catch(() => {});
    await clock.advance(10);
    const ends = clock.monotonic - 10 + 2 * second;
    const looks: number[] = [];
    const faults: Faults = () => {
      if (clock.monotonic >= ends) looks.push(clock.monotonic - ends);
      return undefined;
    };
    const build = slow(500, 1);
    const waiting = Array.from({ length: 50 }, () => process({ faults }).cache.get("k", fresh, build));
    await clock.advance(ends + 60 - clock.monotonic);
    expect(looks).toHaveLength(50);
    expect(build.calls).toBe(1);
    expect(Math.max(...looks) - Math.min(...looks)).toBeGreaterThan(40);
    expect(new Set(looks.map(Math.floor)).size).toBeGreaterThan(20);
    await clock.until(Promise.all(waiting));
  });
});

describe("a commit", () => {
  test("3: whose reply was lost is sent again, and the value is known to be stored", async () => {
    const { clock, process } = world();
    const { cache, client, verbs } = process({ faults: once("commit", { lose: "reply" }) });
    expect(await clock.until(cache.getEntry("k", fresh, () => 1))).toMatchObject({ stored: true, requests: 3 });
    expect(verbs()).toEqual(["elect", "commit", "commit"]);
    expect(client.sent[1]).toEqual(client.sent[2]);
  });

  test("3: of which nothing is known gives its caller the value and says so", async () => {
    const { clock, process } = world();
    const { cache } = process({ faults: always("commit", { lose: "request" }) });
    const entry = await clock.until(cache.getEntry("k", fresh, () => ({ v: 1 })));
    expect(entry).toMatchObject({ value: { v: 1 }, status: "built", stored: false, requests: 3 });
  });

  test("4: that comes late is refused, and its caller gets the newer value", async () => {
    const { clock, process, slow } = world();
    const a = process({ faults: always("tend", { lose: "request" }) });
    const b = process();
    const late = a.cache.getEntry("k", { ...fresh, leaseMs: 50 }, slow(200, "late"));
    await clock.advance(60);
    const newer = await clock.until(b.cache.getEntry("k", fresh, slow(20, "newer")));
    expect(newer).toMatchObject({ value: "newer", status: "built" });
    const entry = await clock.until(late);
    expect(entry).toMatchObject({ value: "newer", status: "waited", fence: newer.fence, stored: true, requests: 2 });
    expect(a.events.find(({ type }) => type === "commit-refused")).toMatchObject({
      reason: "superseded",
      nodes: [{ outcome: "superseded" }],
    });
    expect(await b.cache.peek("k")).toMatchObject({ value: "newer" });
  });

  test("8: of a build that took three leases is taken where nobody else was elected", async () => {
    const { clock, process, slow } = world();
    const { cache } = process();
    const read = cache.getEntry("k", { ...fresh, leaseMs: second }, slow(3 * second, 1));
    expect(await clock.until(read)).toMatchObject({ status: "built", stored: true });
  });

  test("6: of an election before a deletion is refused, although the same process has won another since", async () => {
    const { clock, redis, process, slow } = world();
    const a = process();
    const first = a.cache.getEntry("k", fresh, slow(300, "old"));
    await clock.advance(50);
    await redis.execute(["DEL", "cache:{k}"]);
    const again = process();
    const second_ = again.cache.getEntry("k", fresh, slow(1_000, "new"));
    expect(await clock.until(first)).toMatchObject({ value: "old", stored: false });
    expect(await clock.until(second_)).toMatchObject({ value: "new", stored: true });
    expect(a.events.find(({ type }) => type === "commit-refused")).toMatchObject({ reason: "superseded" });
  });

  test("35: of an election that a late copy won again after an invalidation is refused", async () => {
    const { clock, process, slow } = world();
    const a = process({ faults: once("elect", { againMs: 200 }) });
    const first = a.cache.getEntry("k", fresh, slow(500, "old"));
    await clock.advance(100);
    const b = process();
    await b.cache.invalidate("k");
    expect(await clock.until(first)).toMatchObject({ value: "old", stored: false });
    expect(await b.cache.peek("k")).toBeUndefined();
    expect(await b.cache.getEntry("k", fresh, () => "new")).toMatchObject({ value: "new", requests: 2 });
  });
});

describe("5: what was built before an invalidation is never served after it", () => {
  const ways: [string, (here: World) => Promise<unknown>][] = [
    ["invalidate", ({ process }) => process().cache.invalidate("k")],
    ["DEL", ({ redis }) => redis.execute(["DEL", "cache:{k}"])],
    ["UNLINK", ({ redis }) => redis.execute(["UNLINK", "cache:{k}"])],
    ["FLUSHALL or eviction", ({ redis }) => redis.execute(["FLUSHALL"])],
  ];
  // Each request takes 20 ms there and 20 ms back, the build 100 ms.
  const points = [
    ["while the reply to the election is under way", 30],
    ["while it is built", 90],
    ["while the commit is under way", 150],
  ] as const;

  for (const [way, invalidate] of ways) {
    test.each(points)(`by ${way}, %s`, async (_, ms) => {
      const here = world();
      const { clock } = here;
      const a = here.process({ faults: () => ({ requestMs: 20, replyMs: 20 }) });
      const reading = a.cache.getEntry("k", fresh, here.slow(100, "old"));
      await clock.advance(ms);
      await invalidate(here);
      const later = a.cache.getEntry("k", fresh, () => "new");
      const elsewhere = here.process().cache.getEntry("k", fresh, () => "new");
      expect(await clock.until(later)).toMatchObject({ value: "new" });
      expect(await clock.until(elsewhere)).toMatchObject({ value: "new" });
      expect((await clock.until(reading)).stored).toBe((await reading).value === "new");
      expect(await here.process().cache.peek("k")).toMatchObject({ value: "new" });
    });
  }

  test.each([
    ...points.map(([when, ms]) => [when, ms, "older"] as const),
    ["while the reply to the commit is under way", 170, "old"] as const,
  ])("by a soft one, %s, and who takes an old value is given what stood then", async (_, ms, stood) => {
    const here = world();
    const { clock } = here;
    const lenient = { ...fresh, staleMs: 60 * second };
    await here.process().cache.set("k", "older", { ...lenient, freshMs: 1 });
    await clock.advance(1);
    const a = here.process({ faults: () => ({ requestMs: 20, replyMs: 20 }) });
    const reading = a.cache.getEntry("k", { ...fresh, errorMs: 60 * second }, here.slow(100, "old"));
    await clock.advance(ms);
    await here.process().cache.invalidate("k", { soft: true });
    const build = here.slow(100, "new");
    const strict = [here.process(), a].map(({ cache }) => cache.getEntry("k", fresh, build));
    await clock.advance(0);
    const given = { value: stood, status: "stale", requests: 1 };
    expect(await here.process().cache.getEntry("k", lenient, build)).toMatchObject(given);
    expect([stood, "new"]).toContain(await clock.until(a.cache.get("k", lenient, build)));
    for (const read of strict) expect(await clock.until(read)).toMatchObject({ value: "new", stored: true });
    const entry = await clock.until(reading);
    expect(entry.stored).toBe([stood, "new"].includes(entry.value));
    expect(build.calls).toBe(1);
    expect(await here.process().cache.getEntry("k", fresh, build)).toMatchObject({ value: "new", status: "hit" });
  });
});

test("7: no key is ever without a time to live", async () => {
  const { clock, redis, process, slow } = world();
  const { cache } = process({
    faults: (verb, place) => (place % 7 === 3 ? { lose: verb === "elect" ? "reply" : "request" } : undefined),
  });
  const options = { freshMs: 500, leaseMs: 100, waitMs: 200 };
  const steps = [
    () => cache.get("k", options, slow(30, 1)),
    () => cache.get("k", options, slow(300, 1)),
    () => cache.get("k", options, () => Promise.reject(new Error("no"))),
    () => cache.set("k", 2, options),
    () => cache.invalidate("k"),
    () => cache.peek("k"),
  ];
  for (let i = 0; i < 200; i += 1) {
    const step = steps[(i * 7 + (i >> 3)) % steps.length] ?? steps[0];
    await clock.until(Promise.resolve(step?.()).catch(() => {}));
    const ttl = await redis.execute(["PTTL", "cache:{k}"]);
    expect(ttl).not.toBe(-1);
    await clock.advance((i * 37) % 400);
  }
});

describe("12: a build that fails", () => {
  test("is tried once in each back-off, however many ask, here and elsewhere", async () => {
    const { clock, process, pass } = world();
    let calls = 0;
    const build = async (): Promise<never> => {
      calls += 1;
      await pass(50);
      throw new Error("no");
    };
    const processes = Array.from({ length: 5 }, () => process());
    const readAll = () =>
      processes.flatMap(({ cache }) =>
        Array.from({ length: 10 }, () => lockError(cache.get("k", fresh, build), "build-failed")),
      );
    for (const backOffMs of [1_000, 2_000, 4_000]) {
      const errors = await clock.until(Promise.all(readAll()));
      expect(errors.filter(({ cause }) => cause !== undefined)).toHaveLength(10); // in the process that has built
      expect(errors.every(({ retryAfterMs = 0 }) => retryAfterMs > 0 && retryAfterMs <= backOffMs)).toBe(true);
      await clock.advance(backOffMs / 2);
      await clock.until(Promise.all(readAll()));
      await clock.advance(backOffMs / 2);
    }
    expect(calls).toBe(3);
  });

  test("tells those who come later when to try again, and not what went wrong", async () => {
    const { clock, process } = world();
    const a = process();
    const cause = new TypeError("password=hunter2");
    await lockError(
      a.cache.get("k", fresh, () => Promise.reject(cause)),
      "build-failed",
    );
    await clock.advance(400);
    const error = await lockError(
      process().cache.get("k", fresh, () => 1),
      "build-failed",
    );
    expect(error).toMatchObject({ retryAfterMs: 600, lockName: "k" });
    expect(JSON.stringify(error)).not.toContain("hunter2");
    const [elected, buildFailed] = a.events;
    expect(elected).toMatchObject({ type: "elected", fence: expect.any(Number) });
    expect(buildFailed).toMatchObject({ type: "build-failed", fence: (elected as { fence?: number }).fence });
    await clock.advance(600);
    expect(await a.cache.get("k", fresh, () => 1)).toBe(1);
  });

  test("may throw before it returns a promise, and may throw anything", async () => {
    const { cache } = world().process();
    const build = (): number => {
      throw undefined;
    };
    expect(await lockError(cache.get("k", fresh, build), "build-failed")).toMatchObject({ retryAfterMs: 1_000 });
  });

  test("lets its error out even where Redis does not answer any more", async () => {
    const { clock, process } = world();
    const { cache, events } = process({ faults: always("tend", { lose: "request" }) });
    const error = await lockError(
      clock.until(cache.get("k", fresh, () => Promise.reject(new Error("no")))),
      "build-failed",
    );
    expect(error.cause).toEqual(new Error("no"));
    expect(error.retryAfterMs).toBeUndefined();
    expect(events.at(-1)).toMatchObject({ type: "build-failed", retryAfterMs: 0, nodes: [{ outcome: "unknown" }] });
  });

  test("18: after an invalidation gives its error, and no old value", async () => {
    const { cache } = world().process();
    await cache.set("k", "old", fresh);
    await cache.invalidate("k");
    await lockError(
      cache.get("k", fresh, () => Promise.reject(new Error("no"))),
      "build-failed",
    );
    await lockError(
      cache.get("k", fresh, () => "new"),
      "build-failed",
    );
  });
});

test.each([-3_600_000, 3_600_000])("13: a client's clock that is wrong by %d ms changes nothing", async (skewMs) => {
  const straight = await life(0);
  expect(await life(skewMs)).toEqual(straight);

  async function life(skew: number): Promise<unknown> {
    const here = world();
    const { clock } = here;
    const { cache, client } = here.process({ skewMs: skew });
    const outcomes: unknown[] = [];
    for (let i = 0; i < 6; i += 1) {
      const { status, value } = await clock.until(cache.getEntry("k", { freshMs: 2 * second }, () => i));
      outcomes.push([status, value]);
      await clock.advance(second);
    }
    const args = client.sent.flatMap((command) => command.slice(4).map(Number));
    // No argument is an instant: the largest that is no fence is a duration.
    outcomes.push(Math.max(...args.filter((arg) => arg < 1e15)));
    return outcomes;
  }
});

describe("23: a caller that aborts", () => {
  test("while it waits sends nothing more", async () => {
    const { clock, process, slow } = world();
    const building = process().cache.get("k", fresh, slow(5 * second, 1));
    await clock.advance(10);
    const b = process();
    const controller = new AbortController();
    const read = lockError(
      b.cache.get("k", { ...fresh, signal: controller.signal }, () => 2),
      "aborted",
    );
    await clock.advance(200);
    const sent = b.client.sent.length;
    controller.abort("enough");
    expect((await read).cause).toBe("enough");
    await clock.advance(60 * second);
    expect(b.client.sent).toHaveLength(sent);
    expect(await building).toBe(1);
    expect(clock.pending).toEqual([]);
  });

  test("before anything was sent sends nothing", async () => {
    const { cache, client } = world().process();
    await lockError(
      cache.get("k", { ...fresh, signal: AbortSignal.abort() }, () => 1),
      "aborted",
    );
    expect(client.sent).toEqual([]);
  });

  test("while it builds aborts the build, and lets the next one build at once", async () => {
    const { clock, process, pass } = world();
    const a = process();
    const controller = new AbortController();
    let reason: unknown;
    const read = lockError(
      a.cache.get("k", { ...fresh, signal: controller.signal }, async ({ signal }) => {
        signal.addEventListener("abort", () => {
          reason = signal.reason;
        });
        await pass(1e6);
      }),
      "aborted",
    );
    await clock.advance(100);
    controller.abort();
    await read;
    await clock.advance(0);
    expect(reason).toBeInstanceOf(DOMException);
    expect(a.verbs()).toEqual(["elect", "tend"]);
    const b = process();
    expect(await b.cache.getEntry("k", fresh, () => 2)).toMatchObject({ value: 2, status: "built", requests: 2 });
  });

  test("while its election is under way gives the election back", async () => {
    const { clock, process } = world();
    const a = process({ faults: once("elect", { replyMs: 100 }) });
    const controller = new AbortController();
    const read = lockError(
      a.cache.get("k", { ...fresh, signal: controller.signal }, () => 1),
      "aborted",
    );
    await clock.advance(50);
    controller.abort();
    await read;
    await clock.advance(100);
    expect(a.verbs()).toEqual(["elect", "tend"]);
    expect(await process().cache.getEntry("k", fresh, () => 2)).toMatchObject({ requests: 2 });
  });
});

describe("waitMs", () => {
  test("0 never waits for another's build, but takes what one request brings", async () => {
    const { clock, process, slow } = world();
    const options = { ...fresh, waitMs: 0 };
    const a = process();
    const b = process({ faults: () => ({ replyMs: 30 }) });
    const building = a.cache.get("k", fresh, slow(500, 1));
    await clock.advance(10);
    const error = await lockError(clock.until(b.cache.get("k", options, () => 2)), "contended");
    expect(error.message).toBe('Cannot get "k" as another builds it');
    expect(error.retryAfterMs).toBeGreaterThan(0);
    expect(b.verbs()).toEqual(["elect"]);
    await clock.until(building);
    expect(await clock.until(b.cache.getEntry("k", options, () => 2))).toMatchObject({ value: 1, status: "hit" });
    await a.cache.invalidate("k");
    expect(await clock.until(b.cache.getEntry("k", options, slow(500, 2)))).toMatchObject({ status: "built" });
  });

  test("does not cut a caller's own build short", async () => {
    const { clock, process, slow } = world();
    const { cache } = process();
    const read = cache.getEntry("k", { ...fresh, waitMs: 100 }, slow(20 * second, 1));
    expect(await clock.until(read)).toMatchObject({ value: 1, status: "built", stored: true });
  });
});

describe("20: builds that wait for each other", () => {
  test("end at waitMs where two ask for each other's key", async () => {
    const { clock, process, pass } = world();
    const crossed = (own: string, other: string): Promise<unknown> => {
      const { cache } = process();
      return cache.get(own, fresh, async () => {
        await pass(10);
        return cache.get(other, { ...fresh, waitMs: 500 }, () => 1);
      });
    };
    const outcomes = await clock.until(Promise.allSettled([crossed("a", "b"), crossed("b", "a")]));
    expect(outcomes.some(({ status }) => status === "rejected")).toBe(true);
    expect(clock.monotonic).toBeLessThanOrEqual(1_000 + 10 + 500);
  });
});

describe.each([
  ["24: a server that is out of memory", "OOM", "command not allowed when used memory > 'maxmemory'."],
  ["24: a REST API to which a value is too long", "ERR", "max request size exceeded. Limit: 1048576 bytes"],
  ["25: a server that has become a replica", "READONLY", "You can't write against a read only replica."],
  ["25: a server that is just starting", "LOADING", "Redis is loading the dataset in memory"],
  ["25: a server of a cluster that has handed the key on", "MOVED", "3999 127.0.0.1:6381"],
])("%s", (_, code, text) => {
  const refused = { fail: new ReplyError(`${code} ${text}`) };

  test("at the election lets the caller build without it, or refuses, as it wishes, and is asked by the next", async () => {
    const { process } = world();
    const { cache, verbs } = process({
      faults: (verb, place) => (verb === "elect" && place < 2 ? refused : undefined),
    });
    expect(await cache.getEntry("k", fresh, () => 1)).toEqual({
      value: 1,
      status: "built",
      fence: 0,
      stored: false,
      requests: 1,
    });
    const error = await lockError(
      cache.get("k", { ...fresh, onRedisDown: "throw" }, () => 1),
      "unavailable",
    );
    expect(error.cause).toMatchObject({ code });
    expect(verbs()).toEqual(["elect", "elect"]);
    expect(await cache.getEntry("k", fresh, () => 2)).toMatchObject({ value: 2, stored: true, requests: 2 });
  });

  test("at the commit gives the caller its value, and the election back with the token that won it", async () => {
    const { process } = world();
    const a = process({ faults: always("commit", refused) });
    expect(await a.cache.getEntry("k", fresh, () => 1)).toMatchObject({ value: 1, stored: false, requests: 3 });
    expect(a.verbs()).toEqual(["elect", "commit", "tend"]);
    expect(new Set(a.client.sent.map(([, , , , token]) => token)).size).toBe(1);
    expect(a.events.at(-1)).toMatchObject({ type: "built", stored: false });
    expect(await process().cache.getEntry("k", fresh, () => 2)).toMatchObject({ value: 2, requests: 2 });
  });

  test("at the second request of a set rejects, and holds others up for 5 s at the most", async () => {
    const { clock, process } = world();
    const { cache } = process({ faults: always("commit", refused) });
    await lockError(cache.set("k", 1, fresh), "unavailable");
    const started = clock.monotonic;
    expect(await clock.until(process().cache.get("k", fresh, () => 2))).toBe(2);
    expect(clock.monotonic - started).toBeLessThanOrEqual(5_050);
  });
});

describe("26: a Redis that does not answer", () => {
  const down: Faults = () => ({ lose: "request" });

  test("lets 50 callers in a process share one build, and none of it is stored", async () => {
    const { clock, process, slow } = world();
    const { cache, verbs } = process({ faults: down });
    const build = slow(100, 1);
    const reads = Array.from({ length: 50 }, () => cache.getEntry("k", fresh, build));
    const entries = await clock.until(Promise.all(reads));
    expect(build.calls).toBe(1);
    expect(new Set(entries.map(({ stored, fence }) => `${stored} ${fence}`))).toEqual(new Set(["false 0"]));
    expect(verbs()).toEqual(["elect", "elect"]);
  });

  test("never lets two builds of a key run at once in a process", async () => {
    const { clock, process, slow } = world();
    const { cache } = process({ faults: () => ({ fail: new Error("ECONNREFUSED") }) });
    const build = slow(100, 1);
    const reads: Promise<number>[] = [];
    for (let i = 0; i < 50; i += 1) {
      reads.push(cache.get("k", fresh, build));
      await clock.advance(10);
    }
    await clock.until(Promise.all(reads));
    expect(build.most).toBe(1);
  });

  test("is an error where the caller wishes so, after two tries with one token", async () => {
    const { clock, process, slow } = world();
    const { cache, client } = process({ faults: down });
    const build = slow(0, 1);
    const read = cache.get("k", { ...fresh, onRedisDown: "throw" }, build);
    const started = clock.monotonic;
    const error = await lockError(clock.until(read), "unavailable");
    expect(clock.monotonic - started).toBe(5_000);
    expect(error.nodes).toEqual([{ label: "memory", outcome: "unknown", reason: "timeout", ms: 2_500 }]);
    expect(client.sent[0]).toEqual(client.sent[1]);
    expect(client.sent).toHaveLength(2);
    expect(build.calls).toBe(0);
  });

  test("is asked again by the next caller, so that all is well when it is back", async () => {
    const { clock, process } = world();
    let up = false;
    const { cache } = process({ faults: () => (up ? undefined : { fail: new Error("ECONNREFUSED") }) });
    expect(await cache.getEntry("k", fresh, () => 1)).toMatchObject({ value: 1, stored: false });
    up = true;
    const picky = { ...fresh, onRedisDown: "throw" } as const;
    expect(await clock.until(cache.getEntry("k", picky, () => 2))).toMatchObject({ value: 2, stored: true });
  });

  test("is told as a build that is not stored, of an election that nobody won", async () => {
    const { clock, process } = world();
    const { cache, events } = process({ faults: down });
    const fences: number[] = [];
    await clock.until(cache.get("k", fresh, ({ fence }) => fences.push(fence)));
    expect(events).toMatchObject([{ type: "built", fence: 0, stored: false, requests: 2 }]);
    expect(fences).toEqual([0]);
  });

  test("and asks to be left alone for a while, is not asked again at once", async () => {
    const { clock, process } = world();
    const fail = Object.assign(new Error("status 503"), { retryAfterMs: 2_000 });
    const { cache, verbs } = process({ faults: () => ({ fail }) });
    const picky = { ...fresh, onRedisDown: "throw" } as const;
    expect(await lockError(clock.until(cache.get("k", picky, () => 1)), "unavailable")).toMatchObject({
      retryAfterMs: 2_000,
    });
    expect(verbs()).toEqual(["elect"]);
  });

  test("makes set, invalidate and peek say so", async () => {
    const { clock, process } = world();
    const { cache } = process({ faults: down });
    const calls: (() => Promise<unknown>)[] = [
      () => cache.set("k", 1, fresh),
      () => cache.invalidate("k"),
      () => cache.peek("k"),
    ];
    for (const call of calls) await lockError(clock.until(call()), "unavailable");
  });

  test("is another thing than one that refuses the credentials: that is a mistake in the configuration, and nothing is built", async () => {
    const { process, slow } = world();
    const build = slow(0, 1);
    const { cache, verbs } = process({ faults: () => ({ fail: new ReplyError("NOAUTH Authentication required.") }) });
    await lockError(cache.get("k", fresh, build), "config");
    expect(build.calls).toBe(0);
    await lockError(cache.set("k", 1, fresh), "config");
    expect(verbs()).toEqual(["elect", "elect"]);
  });
});

describe("26: a Redis that is not let in to", () => {
  test("after the election is asked no more, as it would refuse that as well", async () => {
    const { process } = world();
    const { cache, verbs } = process({ faults: always("commit", { fail: new ReplyError("NOPERM no permissions") }) });
    expect(await cache.getEntry("k", fresh, () => 1)).toMatchObject({ value: 1, stored: false, requests: 2 });
    expect(verbs()).toEqual(["elect", "commit"]);
  });

  test("as its client is not fit for use, is the client's own error for all who ask", async () => {
    const { process } = world();
    const own = new LockError("config", "Cannot use url");
    const { cache } = process({ faults: () => ({ fail: own }) });
    const reads = [cache.get("k", fresh, () => 1), cache.get("k", fresh, () => 2)];
    for (const read of reads) expect(await lockError(read, "config")).toBe(own);
    expect(await lockError(cache.invalidate("k"), "config")).toBe(own);
  });
});

describe("28: requests", () => {
  test("hit 1, rebuild 2, set 2", async () => {
    const { process } = world();
    const { cache, client } = process();
    const cost = async (call: () => Promise<unknown>): Promise<number> => {
      const before = client.sent.length;
      await call();
      return client.sent.length - before;
    };
    expect(await cost(() => cache.get("k", fresh, () => 1))).toBe(2);
    expect(await cost(() => cache.get("k", fresh, () => 1))).toBe(1);
    expect(await cost(() => cache.set("k", 2, fresh))).toBe(2);
    expect(await cost(() => cache.peek("k"))).toBe(1);
    expect(await cost(() => cache.invalidate("k"))).toBe(1);
  });

  test.each([20, 100, 300, 800, 2_000, 9_000])(
    "a waiter sends 3 at most for a build of %d ms once that is known, and 5 at most for a cold one of 800 ms or less",
    async (buildMs) => {
      const { clock, process, slow } = world();
      const net: Faults = () => ({ requestMs: 15, replyMs: 15 });
      const wave = async (): Promise<number[]> => {
        const reads = Array.from({ length: 20 }, () =>
          process({ faults: net }).cache.getEntry("k", { ...fresh, waitMs: 60_000 }, slow(buildMs, 1)),
        );
        const entries = await clock.until(Promise.all(reads));
        expect(entries.filter(({ status }) => status === "built")).toHaveLength(1);
        return entries.filter(({ status }) => status === "waited").map(({ requests }) => requests);
      };
      const cold = await wave();
      if (buildMs <= 800) expect(Math.max(...cold)).toBeLessThanOrEqual(5);
      await process().cache.invalidate("k");
      expect(Math.max(...(await wave()))).toBeLessThanOrEqual(3);
    },
  );
});

test("the commands of all this are scripts of the cache and nothing else", async () => {
  const { process } = world();
  const { cache, client } = process();
  await cache.get("k", fresh, () => 1);
  expect(client.sent.map(verbOf)).toEqual(["elect", "commit"]);
  expect(client.verbs).toEqual(["EVAL", "EVAL"]);
});
