import { describe, expect, test } from "vitest";
import { ReplyError } from "../src/command.ts";
import { isLockError } from "../src/errors.ts";
import type { Lease } from "../src/lease.ts";
import { createLock } from "../src/lock.ts";
import { oneRedis } from "./support/one-redis.ts";
import { lockError } from "./support/rejection.ts";
import { settle } from "./support/virtual-clock.ts";

const key = "lock:{job}";
const day = 86_400_000;

/** What a holder sees of a lease that is over. */
function expectOver(lease: Lease, lostBy: string): void {
  expect(lease.remaining()).toBe(0);
  expect(lease.signal.aborted).toBe(true);
  expect(lease.signal.reason).toMatchObject({ name: "LockError", code: "lost", lostBy, lockName: lease.name });
  expect(() => lease.assertHeld()).toThrow(expect.objectContaining({ code: "lost", lostBy }));
}

describe("a lease", () => {
  test("tells its name, key, token and fence, as Redis has them", async () => {
    const { lock, run } = oneRedis();
    const lease = await lock.acquire("job");
    expect(lease).toMatchObject({ name: "job", key, token: await run("GET", key) });
    expect(lease.fence).toBe(Number(await run("GET", `${key}:fence`)));
    expect(lease.token).toMatch(/^t[0-9a-f]{32}$/);
    expect(Number.isSafeInteger(lease.fence)).toBe(true);
  });

  // A getter of its own would give each lease a hidden class of its own in V8, kept until a full collection.
  test("has no property of its own that is computed", async () => {
    const lease = await oneRedis().lock.acquire("job");
    for (const property of Object.values(Object.getOwnPropertyDescriptors(lease)))
      expect(property).toHaveProperty("value");
    expect("signal" in lease).toBe(true);
  });

  test("is new for each acquisition, and its fence grows", async () => {
    const { lock } = oneRedis();
    const tokens = new Set<string>();
    let fence = 0;
    for (let i = 0; i < 50; i += 1) {
      const lease = await lock.acquire("job");
      expect(lease.fence).toBeGreaterThan(fence);
      fence = lease.fence;
      tokens.add(lease.token);
      await lease.release();
    }
    expect(tokens.size).toBe(50);
  });

  test("has a fence that grows although the server's clock runs backwards", async () => {
    const { lock, clock } = oneRedis();
    const first = await lock.acquire("job");
    await first.release();
    clock.wall -= day;
    expect((await lock.acquire("job")).fence).toBe(first.fence + 1);
  });
});

describe("remaining()", () => {
  test("is the lease less 1 %, 2 ms and the round trip, and falls with the time", async () => {
    const { lock, clock } = oneRedis({ leaseMs: 10_000 });
    const lease = await lock.acquire("job");
    expect(lease.remaining()).toBe(10_000 - 100 - 2);
    await clock.advance(1_000);
    expect(lease.remaining()).toBe(8_898);
    await clock.advance(8_897);
    expect(lease.remaining()).toBe(1);
    await clock.advance(1);
    expectOver(lease, "expired");
  });

  test("charges the way there and back, and keeps the time of another way free for the holder's last write", async () => {
    const { lock, clock } = oneRedis({ leaseMs: 10_000 }, { acquire: [{ requestMs: 60, replyMs: 40 }] });
    const lease = await clock.until(lock.acquire("job"));
    const flight = 3 * 100; // RFC 6298 after one sample: r + 4 × r / 2
    expect(lease.remaining()).toBe(10_000 - 102 - 100 - flight);
  });

  test("never keeps more than a quarter of the lease for the last write", async () => {
    const { lock, clock } = oneRedis({ leaseMs: 1_000 }, { acquire: [{ requestMs: 200 }] });
    const lease = await clock.until(lock.acquire("job"));
    expect(lease.remaining()).toBe(1_000 - 12 - 200 - 250);
  });

  test("stays below what the key has left, whatever the network does", async () => {
    for (let way = 0; way < 400; way += 37) {
      const { lock, clock, run } = oneRedis({ leaseMs: 2_000 }, { acquire: [{ requestMs: way, replyMs: 400 - way }] });
      const lease = await clock.until(lock.acquire("job"));
      expect(lease.remaining()).toBeLessThan(Number(await run("PTTL", key)));
    }
  });

  test("is whole, also where the clocks give fractions", async () => {
    const { lock, clock } = oneRedis({ leaseMs: 10_000 }, { acquire: [{ requestMs: 0.3 }] });
    const lease = await clock.until(lock.acquire("job"));
    expect(lease.remaining()).toBe(9_896);
    await clock.advance(9_895.9);
    expectOver(lease, "expired");
  });
});

describe("a lease after a pause or a step of a clock", () => {
  test("is over at the first look after a freeze, before any timer has run", async () => {
    const { lock, clock, events } = oneRedis({ leaseMs: 10_000 });
    const lease = await lock.acquire("job");
    const { signal } = lease;
    clock.freeze(10_000);
    expect(lease.remaining()).toBe(0);
    expect(signal.aborted).toBe(true);
    await clock.advance(1);
    expect(events.filter(({ type }) => type === "lost")).toHaveLength(1);
  });

  test.for([
    ["assertHeld()", (lease: Lease) => expect(() => lease.assertHeld()).toThrow("no longer held")],
    ["signal", (lease: Lease) => expect(lease.signal.aborted).toBe(true)],
    ["extend()", (lease: Lease) => lockError(lease.extend(), "lost")],
  ] as const)("%s is such a look too", async ([, look]) => {
    const { lock, clock, verbs } = oneRedis({ leaseMs: 10_000 });
    const lease = await lock.acquire("job");
    clock.freeze(10_000);
    await look(lease);
    expectOver(lease, "expired");
    expect(verbs()).toEqual(["acquire"]);
  });

  test("a signal that was taken before fires at the deadline by itself, though no reply ever comes", async () => {
    const { lock, clock } = oneRedis({ leaseMs: 10_000 });
    const { signal } = await lock.acquire("job");
    let abortedAt = 0;
    signal.addEventListener("abort", () => {
      abortedAt = clock.monotonic;
    });
    const began = clock.monotonic;
    await clock.advance(20_000);
    expect(abortedAt - began).toBeGreaterThan(9_890);
    expect(abortedAt - began).toBeLessThanOrEqual(9_898);
  });

  test("without an observer, and until its signal is taken, it sets no timer", async () => {
    const { redis, env, clock } = oneRedis();
    const lease = await createLock(redis, {}, env).acquire("job");
    expect(clock.pending).toEqual([]);
    expect(lease.signal.aborted).toBe(false);
    expect(clock.pending).toMatchObject([{ keepsAlive: false }]);
    await lease.release();
    expect(clock.pending).toEqual([]);
  });

  test("with an observer, the loss is told in time although nobody looks", async () => {
    const { lock, clock, events } = oneRedis({ leaseMs: 10_000 });
    await lock.acquire("job");
    await clock.advance(9_898);
    expect(events.map(({ type }) => type)).toEqual(["acquired", "lost"]);
  });

  test("a signal that is first taken when it is over has aborted, and after a release never does", async () => {
    const { redis, env, clock } = oneRedis();
    const lock = createLock(redis, {}, env); // without an observer, so that no timer runs
    const lease = await lock.acquire("job");
    await clock.advance(10_001);
    expect(lease.signal.aborted).toBe(true);
    expectOver(lease, "expired");
    const released = await lock.acquire("job");
    await released.release();
    await clock.advance(10_000);
    expect(released.signal.aborted).toBe(false);
  });

  test("a wall clock that steps forward ends it early, a monotonic one that stands still does not keep it", async () => {
    const { lock, clock } = oneRedis({ leaseMs: 10_000 });
    const [first, second] = [await lock.acquire("job"), await lock.acquire("second job")];
    clock.wall += 5_000;
    expect(first.remaining()).toBe(4_898);
    clock.wall += 5_000;
    expectOver(first, "expired");
    expectOver(second, "expired");
  });

  test("a wall clock that steps back does not prolong it", async () => {
    const { lock, clock } = oneRedis({ leaseMs: 10_000 });
    const lease = await lock.acquire("job");
    clock.wall -= 3_600_000;
    await clock.advance(4_000);
    expect(lease.remaining()).toBe(5_898);
    await clock.advance(5_898);
    expectOver(lease, "expired");
  });

  test("two clocks that both run backwards end it, as nothing is known then", async () => {
    const { lock, clock } = oneRedis({ leaseMs: 10_000 });
    const lease = await lock.acquire("job");
    clock.wall -= 10;
    clock.monotonic -= 10;
    expectOver(lease, "expired");
  });

  test("stays over when the clock steps back again", async () => {
    const { lock, clock } = oneRedis({ leaseMs: 10_000 });
    const lease = await lock.acquire("job");
    clock.wall += 60_000;
    expectOver(lease, "expired");
    clock.wall -= 60_000;
    expectOver(lease, "expired");
    await lockError(lease.extend(), "lost");
  });
});

describe("extend()", () => {
  test("sets what is left, by default to the lease's own length, and returns the same lease", async () => {
    const { lock, clock, run, events } = oneRedis({ leaseMs: 10_000 });
    const lease = await lock.acquire("job", { leaseMs: 4_000 });
    await clock.advance(3_000);
    expect(await lease.extend()).toBe(lease);
    expect(lease.remaining()).toBe(4_000 - 42);
    expect(await run("PTTL", key)).toBe(4_000);
    await clock.advance(1_000);
    await lease.extend(10_000);
    expect(lease.remaining()).toBe(10_000 - 102);
    expect(await run("PTTL", key)).toBe(10_000);
    expect(events).toMatchObject([
      { type: "acquired" },
      { type: "extended", remainingMs: 3_958 },
      { type: "extended" },
    ]);
  });

  test("takes undefined for the lease's own length", async () => {
    const { lock, clock, run } = oneRedis({ leaseMs: 4_000 });
    const lease = await lock.acquire("job");
    await clock.advance(1_000);
    await lease.extend(undefined);
    expect(await run("PTTL", key)).toBe(4_000);
  });

  test("moves the deadline of the signal", async () => {
    const { lock, clock } = oneRedis({ leaseMs: 10_000 });
    const lease = await lock.acquire("job");
    for (let i = 0; i < 5; i += 1) {
      await clock.advance(9_000);
      await lease.extend();
    }
    expect(clock.pending).toEqual([{ inMs: lease.remaining(), keepsAlive: false }]);
    await clock.advance(9_897);
    expect(lease.signal.aborted).toBe(false);
    await clock.advance(1);
    expectOver(lease, "expired");
  });

  test("never shortens", async () => {
    const { lock, run } = oneRedis({ leaseMs: 10_000 });
    const lease = await lock.acquire("job");
    const before = lease.remaining();
    await lease.extend(100);
    expect(lease.remaining()).toBeGreaterThanOrEqual(before);
    expect(await run("PTTL", key)).toBe(10_000);
  });

  test("one that was overtaken by a longer one takes nothing back when it lands", async () => {
    const { lock, clock, run } = oneRedis({ leaseMs: 10_000 }, { extend: [{ requestMs: 100, replyMs: 50 }] });
    const lease = await lock.acquire("job");
    const short = lease.extend(10_000);
    await settle();
    await lease.extend(60_000);
    await clock.until(short);
    expect(lease.remaining()).toBe(60_000 - 602 - 150);
    expect(await run("PTTL", key)).toBe(59_850);
  });

  test.for([
    [{ lose: "request" }, "timeout"],
    [{ lose: "reply" }, "timeout"],
    [{ fail: new Error("ECONNRESET") }, "ECONNRESET"],
    [{ fail: new ReplyError("READONLY You can't write against a read only replica.") }, "READONLY"],
    [{ answer: null }, "odd reply"],
    [{ answer: [1, -1] }, "odd reply"],
    [{ answer: [1] }, "odd reply"],
    [{ answer: "OK" }, "odd reply"],
  ] as const)("%o is unavailable and leaves the old deadline as it was", async ([fault, reason]) => {
    const { lock, clock, verbs, events } = oneRedis({ leaseMs: 10_000 }, { extend: [fault] });
    const lease = await lock.acquire("job");
    await clock.advance(1_000);
    const error = await lockError(clock.until(lease.extend(60_000)), "unavailable");
    expect(error.message).toMatch(/^Cannot extend the lease on "job" as too few definite answers: node 1: /);
    expect(error.message).toContain(reason);
    expect(verbs()).toEqual(["acquire", "extend"]);
    expect(events.map(({ type }) => type)).toEqual(["acquired"]); // it is the caller who is told
    expect(lease.signal.aborted).toBe(false);
    const passed = clock.monotonic - 2_000;
    expect(lease.remaining()).toBe(8_898 - passed);
    await lease.extend();
    expect(lease.remaining()).toBeGreaterThanOrEqual(9_898); // more where the one without an answer has run
  });

  test("credentials that are refused by now are a config error, and no loss", async () => {
    const { lock, clock } = oneRedis({}, { extend: [{ fail: new ReplyError("NOPERM no permissions") }] });
    const lease = await lock.acquire("job");
    await lockError(clock.until(lease.extend()), "config");
    expect(lease.remaining()).toBeGreaterThan(0);
  });

  test.for([
    ["a key that is gone", ["DEL", key], "expired", "absent"],
    ["another's token", ["SET", key, "theirs"], "stolen", "foreign"],
  ] as const)(
    "%s is a loss at once: nothing is created, nothing is prolonged",
    async ([, command, lostBy, outcome]) => {
      const { lock, clock, run, events, verbs } = oneRedis();
      const lease = await lock.acquire("job");
      await run(...command);
      const before = await run("PTTL", key);
      const nodes = [{ label: "node 1", outcome }];
      expect(await lockError(lease.extend(), "lost")).toMatchObject({ lostBy, nodes });
      expectOver(lease, lostBy);
      expect(await run("PTTL", key)).toBe(before);
      expect(events.at(-1)).toMatchObject({ type: "lost", by: lostBy, name: "job", fence: lease.fence, nodes });
      expect(clock.pending).toEqual([]);
      await lockError(lease.extend(), "lost");
      expect(verbs()).toEqual(["acquire", "extend"]);
    },
  );

  test("digits in strings and null for 0 are read alike", async () => {
    const { lock } = oneRedis({}, { extend: [{ answer: ["1", "5000"] }, { answer: [null, null] }] });
    const lease = await lock.acquire("job");
    await lease.extend();
    expect((await lockError(lease.extend(), "lost")).lostBy).toBe("expired");
  });

  test("one whose answer comes after the deadline is too late", async () => {
    const { lock, clock, run } = oneRedis({ leaseMs: 2_000 }, { extend: [{ replyMs: 400 }] });
    const lease = await lock.acquire("job");
    await clock.advance(1_800);
    expect((await lockError(clock.until(lease.extend()), "lost")).lostBy).toBe("expired");
    expect(await run("GET", key)).toBe(lease.token);
    expectOver(lease, "expired");
    expect(await lease.release()).toBe("released");
  });

  test("one that is answered after a freeze past the deadline cannot bring the lease back", async () => {
    const { lock, clock } = oneRedis({ leaseMs: 2_000 }, { extend: [{ replyMs: 100 }] });
    const lease = await lock.acquire("job");
    const extending = lockError(lease.extend(), "lost");
    await settle();
    clock.freeze(5_000);
    await clock.until(extending);
    expectOver(lease, "expired");
  });

  test("one for longer than a freeze past the deadline cannot bring it back either, as another may have held it", async () => {
    const { lock, other, redis, clock, client } = oneRedis({ leaseMs: 2_000 }, { extend: [{ requestMs: 100 }] });
    const lease = await lock.acquire("job");
    const extending = lockError(lease.extend(60_000), "lost");
    await settle();
    clock.wall += 3_000; // the machine sleeps, and its timers stand still with its monotonic clock
    await (await other.acquire("job")).release();
    const [acquire] = client.sent;
    if (acquire) await redis.execute(acquire); // a second copy, which comes late
    await clock.until(extending);
    expectOver(lease, "expired");
  });

  test("bad lengths are refused before anything is sent", async () => {
    const { lock, client } = oneRedis();
    const lease = await lock.acquire("job");
    for (const leaseMs of [0, 9, -1, 10.5, Number.NaN, Number.POSITIVE_INFINITY, 2 ** 53]) {
      const error = await lockError(lease.extend(leaseMs), "config");
      expect(error.message).toBe(
        `Cannot use leaseMs as it must be an integer of ms from 10 to 31536000000: current value is ${leaseMs}`,
      );
    }
    expect(client.sent).toHaveLength(1);
  });
});

describe("a lease of many days", () => {
  test("is held to its end, and its deadline is one timer", async () => {
    const { lock, clock } = oneRedis({ leaseMs: 90 * day });
    const lease = await lock.acquire("job");
    expect(lease.remaining()).toBe((90 * day * 99) / 100 - 2);
    expect(clock.pending).toHaveLength(1);
    await clock.advance(89 * day);
    expect(lease.remaining()).toBeGreaterThan(0);
    await clock.advance(day);
    expectOver(lease, "expired");
  });

  test("is refused above 365 days", async () => {
    const { lock, client } = oneRedis();
    await lock.acquire("job", { leaseMs: 365 * day });
    await lockError(lock.acquire("another job", { leaseMs: 365 * day + 1 }), "config");
    expect(client.sent).toHaveLength(1);
  });
});

describe("await using", () => {
  test("releases at the end of the block, also when it throws", async () => {
    const { lock, run } = oneRedis();
    const boom = new Error("boom");
    const block = async (): Promise<void> => {
      await using lease = await lock.acquire("job");
      expect(await run("GET", key)).toBe(lease.token);
      throw boom;
    };
    await expect(block()).rejects.toBe(boom);
    expect(await run("EXISTS", key)).toBe(0);
  });

  test("tries the release twice while nobody else can have the lock", async () => {
    const { lock, run, events, verbs } = oneRedis({}, { release: [{ fail: new Error("ECONNRESET") }] });
    {
      await using _ = await lock.acquire("job");
    }
    expect(await run("EXISTS", key)).toBe(0);
    expect(verbs()).toEqual(["acquire", "release", "release"]);
    expect(events.map(({ type }) => type)).toEqual(["acquired", "release-failed", "released"]);
  });

  test("never throws: what went wrong goes to the observer", async () => {
    const fail = new ReplyError("READONLY You can't write against a read only replica.");
    const { lock, events } = oneRedis({}, { release: [{ fail }, { fail }] });
    {
      await using _ = await lock.acquire("job");
    }
    expect(events.map(({ type }) => type)).toEqual(["acquired", "release-failed", "release-failed"]);
    expect(events.at(-1)).toMatchObject({ code: "unavailable", nodes: [{ outcome: "no-vote", reason: fail.message }] });
  });

  test("after the lease is over tries once, and hurts nobody", async () => {
    const { lock, other, clock, run, verbs } = oneRedis(
      { leaseMs: 1_000 },
      { release: [{ fail: new Error("reset") }] },
    );
    let taken = "";
    {
      await using _ = await lock.acquire("job");
      await clock.advance(1_001);
      taken = (await other.acquire("job")).token;
    }
    expect(verbs()).toEqual(["acquire", "release"]);
    expect(await run("GET", key)).toBe(taken);
  });

  test("after release() sends nothing", async () => {
    const { lock, verbs } = oneRedis();
    {
      await using lease = await lock.acquire("job");
      await lease.release();
    }
    expect(verbs()).toEqual(["acquire", "release"]);
  });

  test("hands the release to waitUntil where there is one", async () => {
    const work: Promise<unknown>[] = [];
    const waitUntil = (promise: Promise<unknown>): void => void work.push(promise);
    const { lock, clock, run } = oneRedis({ waitUntil }, { release: [{ requestMs: 100 }] });
    {
      await using _ = await lock.acquire("job");
    }
    expect(work).toHaveLength(1);
    expect(await run("EXISTS", key)).toBe(1);
    await clock.until(Promise.all(work));
    expect(await run("EXISTS", key)).toBe(0);
  });
});

test("an error that a lease throws is recognised by its code, and always the same one", async () => {
  const { lock, clock } = oneRedis({ leaseMs: 1_000 });
  const lease = await lock.acquire("job");
  await clock.advance(1_000);
  const errors = [() => lease.assertHeld(), () => lease.signal.throwIfAborted()].map((act) => {
    try {
      act();
      return undefined;
    } catch (error) {
      return error;
    }
  });
  expect(errors[0]).toSatisfy((error) => isLockError(error, "lost"));
  expect(errors[1]).toBe(errors[0]);
  expect(errors[0]).toHaveProperty("message", 'Cannot use the lease on "job" as it is no longer held: expired');
});
