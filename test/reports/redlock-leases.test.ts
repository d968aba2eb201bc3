/**
 * The public reports on acquiring, renewal and release that are not about one Redis alone, for a lock over three; those
 * that are told in the same words for both locks are with those for one. Each test is named by the id of its report.
 */
import { describe, expect, test } from "vitest";
import { isLockError } from "../../src/errors.ts";
import { inspectLock } from "../../src/inspect.ts";
import type { RedlockOptions } from "../../src/redlock.ts";
import { key, type World, world } from "../redlock/world.ts";
import { countingSignal, holding, tokenOf } from "../support/one-redis.ts";
import { lockError } from "../support/rejection.ts";
import { forever, lasting, settle } from "../support/virtual-clock.ts";

const reset = { fail: new Error("ECONNRESET") };
const count = ({ events }: World, wanted: string): number => events.filter(({ type }) => type === wanted).length;

describe("A03 an acquire that times out here and is granted there", () => {
  test("A03 is unavailable, deletes by its token on all nodes, and another can have the name within a second", async () => {
    const { lock, other, clock, sentOf, run } = world(3, { leaseMs: 30_000, waitMs: 0 }, ({ verb }) =>
      verb === "acquire" ? { lose: "reply" } : undefined,
    );
    const acquiring = lock.acquire("job");
    await settle();
    const [token] = await run("GET", key);
    await lockError(clock.until(acquiring), "unavailable");
    expect(sentOf("release").map(({ command }) => tokenOf(command))).toEqual([token, token, token]);
    expect(await run("EXISTS", key)).toEqual([0, 0, 0]);
    const began = clock.monotonic;
    await other.acquire("job", { waitMs: 1_000 });
    expect(clock.monotonic - began).toBeLessThan(1_000);
  });

  const late = () => world(3, { waitMs: 0 }, ({ verb }) => (verb === "acquire" ? { requestMs: 5_000 } : undefined));

  test("A03 when it lands after the rejection it takes nothing", async () => {
    const { lock, clock, run } = late();
    const began = clock.monotonic;
    await lockError(clock.until(lock.acquire("job")), "unavailable");
    expect(clock.monotonic - began).toBeLessThan(5_000);
    for (let passed = 0; passed < 10_000; passed += 500) {
      await clock.advance(500);
      expect(await run("EXISTS", key)).toEqual([0, 0, 0]);
    }
  });

  test("A03 when it lands while another owner holds, that one's keys stay", async () => {
    const { lock, other, clock, run } = late();
    await lockError(clock.until(lock.acquire("job")), "unavailable");
    const theirs = await other.acquire("job", { leaseMs: 60_000 });
    await clock.advance(10_000);
    expect(await run("GET", key)).toEqual(Array(3).fill(theirs.token));
  });

  test("A03 when it was never granted, the delete leaves the keys of who has it by then", async () => {
    const { lock, other, clock, run, sentOf } = world(3, { waitMs: 0 }, ({ verb }) =>
      verb === "acquire" ? { lose: "request" } : undefined,
    );
    const acquiring = lock.acquire("job");
    const theirs = await other.acquire("job", { leaseMs: 60_000 });
    await lockError(clock.until(acquiring), "unavailable");
    expect(sentOf("release")).toHaveLength(3);
    expect(await run("GET", key)).toEqual(Array(3).fill(theirs.token));
  });
});

test("A06 contention, outage, time-out, abort and loss have codes of their own", async () => {
  const acquiring = async (options: RedlockOptions, fault: typeof reset | undefined, signal?: AbortSignal) => {
    const { lock, clock, run } = world(3, options, () => fault);
    await run("SET", key, "theirs", "PX", 60_000);
    return clock.until(lock.acquire("job", { signal }));
  };
  await lockError(acquiring({ waitMs: 0 }, undefined), "contended");
  const { cause } = await lockError(acquiring({ waitMs: 500 }, undefined), "timeout");
  expect(isLockError(cause, "contended")).toBe(true);
  await lockError(acquiring({ waitMs: 500 }, reset), "unavailable");
  await lockError(acquiring({}, undefined, AbortSignal.abort()), "aborted");

  const { lock, clock, run } = world(3);
  const lease = await lock.acquire("job");
  await clock.advance(1); // the straggler has granted as well
  await run("SET", key, "theirs", "PX", 60_000);
  expect((await lockError(clock.until(lease.extend()), "lost")).lostBy).toBe("stolen");
});

test("A07 the wait does not depend on the lease, and the lease counts from the grant", async () => {
  const { lock, other, clock } = world(3);
  const theirs = await other.acquire("job", { leaseMs: 10_000 });
  const began = clock.monotonic;
  const waiting = lock.acquire("job", { leaseMs: 200, waitMs: 2_000 });
  await clock.advance(1_000);
  await theirs.release();
  const lease = await clock.until(waiting);
  expect(clock.monotonic - began).toBeGreaterThanOrEqual(1_000);
  expect(clock.monotonic - began).toBeLessThan(2_000);
  expect(lease.remaining()).toBeGreaterThan(150);
});

describe("A08 waiting can be ended", () => {
  test("A08 by an abort while contended, at once; no try follows, and no timer or listener is left", async () => {
    const { lock, clock, sentOf, run } = world(3);
    await run("SET", key, "theirs", "PX", 60_000);
    const { controller, listeners } = countingSignal();
    const waiting = lockError(lock.acquire("job", { signal: controller.signal }), "aborted");
    await clock.advance(50);
    const [sent, began] = [sentOf("acquire").length, clock.monotonic];
    controller.abort();
    await clock.until(waiting);
    expect(clock.monotonic - began).toBeLessThanOrEqual(20);
    expect(clock.pending).toEqual([]);
    await clock.advance(30_000);
    expect(sentOf("acquire")).toHaveLength(sent);
    expect(listeners()).toBe(0);
  });

  test("A08 by a signal that has aborted before, of which nothing is sent", async () => {
    const { lock, sent } = world(3);
    await lockError(lock.acquire("job", { signal: AbortSignal.abort() }), "aborted");
    expect(sent).toEqual([]);
  });

  test.for([
    ["before it", { replyMs: 100 }, 1],
    ["after it", { requestMs: 100 }, 0],
  ] as const)(
    "A08 by an abort while requests are under way, which leave nothing where they run %s",
    async ([, way, has]) => {
      const { lock, clock, run } = world(3, {}, ({ verb }) => (verb === "acquire" ? way : undefined));
      const { controller, listeners } = countingSignal();
      const waiting = lockError(lock.acquire("job", { signal: controller.signal }), "aborted");
      await clock.advance(50);
      expect(await run("EXISTS", key)).toEqual([has, has, has]);
      controller.abort();
      await clock.until(waiting);
      expect(await run("EXISTS", key)).toEqual([0, 0, 0]);
      await clock.advance(1_000); // by now they have run
      expect(await run("EXISTS", key)).toEqual([0, 0, 0]);
      expect([clock.pending, listeners()]).toEqual([[], 0]);
    },
  );

  test("A08 by clients that are closed for good, as unavailable by the end of waitMs", async () => {
    const { lock, clock } = world(3, { waitMs: 1_000 }, () => ({ fail: new Error("Connection is closed.") }));
    const began = clock.monotonic;
    await lockError(clock.until(lock.acquire("job")), "unavailable");
    expect(clock.monotonic - began).toBeLessThanOrEqual(1_000);
  });
});

test("B01 a renewal that comes too late does not take the lock again", async () => {
  const subject = world(3, { leaseMs: 100 });
  const { clock, other, run } = subject;
  const { lease, running, end } = await holding(subject);
  clock.freeze(110);
  await (await other.acquire("job")).release();
  clock.freeze(40);
  await clock.advance(1);
  expect(lease.signal.reason).toMatchObject({ code: "lost", lostBy: "expired" });
  expect(await run("EXISTS", key)).toEqual([0, 0, 0]); // before a release could have tidied up
  end();
  await lockError(clock.until(running), "lost");
  expect(count(subject, "lost")).toBe(1);
  expect(await run("EXISTS", key)).toEqual([0, 0, 0]);
});

test("B02 a loss that nobody listens for is no unhandled rejection, and withLock() rejects lost", async () => {
  const unhandled: unknown[] = [];
  const note = (reason: unknown): void => void unhandled.push(reason);
  process.on("unhandledRejection", note);
  try {
    const { lock, clock, run } = world(3, { leaseMs: 200 });
    const unwatched = await lock.acquire("unwatched");
    const signals = [unwatched.signal];
    await run("DEL", unwatched.key);
    const task = lock.withLock("job", async ({ signal }) => {
      signals.push(signal);
      await run("DEL", key);
      await lasting(clock, 1_000);
    });
    await lockError(clock.until(task), "lost");
    await settle();
    expect(unhandled).toEqual([]);
    expect(signals).toHaveLength(2);
    for (const signal of signals) expect(signal.reason).toMatchObject({ code: "lost" });
  } finally {
    process.off("unhandledRejection", note);
  }
});

describe("B06 one failed renewal is not the end", () => {
  test("B06 lost connections to all nodes are got over, and the lock is still held after two leases", async () => {
    const subject = world(3, { leaseMs: 30_000 }, ({ verb, place }) =>
      verb === "extend" && place === 0 ? reset : undefined,
    );
    const { clock, run } = subject;
    const { lease, running, end } = await holding(subject);
    await clock.advance(70_000);
    expect(lease.signal.aborted).toBe(false);
    expect(await run("GET", key)).toEqual(Array(3).fill(lease.token));
    end();
    await clock.until(running);
  });

  test("B06 if every try fails the loss comes by the deadline of the last success, and not before", async () => {
    let broken = false;
    const subject = world(3, { leaseMs: 30_000 }, ({ verb }) => (verb === "extend" && broken ? reset : undefined));
    const { clock, sentOf } = subject;
    const { lease } = await holding(subject);
    while (sentOf("extend").length === 0) await clock.advance(10);
    broken = true;
    const left = lease.remaining();
    const { signal } = lease; // to ask the lease for it would be a look at the clock
    await clock.advance(left - 1);
    expect(signal.aborted).toBe(false);
    await clock.advance(2); // what is left is told in whole ms
    expect(signal.reason).toMatchObject({ lostBy: "expired" });
    expect(count(subject, "renewal-unknown")).toBeGreaterThan(3);
  });
});

describe("B08 the deadline counts from the request that was answered", () => {
  test("B08 not from the first try of a long wait", async () => {
    const { lock, other, clock } = world(3);
    await other.acquire("job", { leaseMs: 5_000 });
    const lease = await clock.until(lock.acquire("job", { leaseMs: 1_000 }));
    expect(lease.remaining()).toBeGreaterThan(900);
  });

  test("B08 not from the acquisition where the lease was extended, and a task of three and a half leases is not ended", async () => {
    const { lock, clock } = world(3, { leaseMs: 10_000 });
    const lease = await lock.acquire("one");
    await clock.advance(9_000);
    await lease.extend();
    expect(lease.remaining()).toBeGreaterThan(9_800);
    await clock.until(
      lock.withLock("job", async ({ signal }) => {
        await lasting(clock, 35_000);
        expect(signal.aborted).toBe(false);
      }),
    );
  });
});

test("B09 the same lease is extended three times and then released", async () => {
  const { lock, clock, run } = world(3, { leaseMs: 10_000 });
  const lease = await lock.acquire("job");
  for (const leaseMs of [20_000, 30_000, 40_000]) {
    await clock.advance(1_000);
    expect(await lease.extend(leaseMs)).toBe(lease);
    expect(lease.remaining()).toBe(leaseMs - leaseMs / 100 - 2);
    expect(await run("PTTL", key)).toEqual([leaseMs, leaseMs, leaseMs]);
  }
  expect(await lease.release()).toBe("released");
});

test("B10 an extend of keys that are gone is a loss, and does not create them", async () => {
  const { lock, clock, run } = world(3);
  const lease = await lock.acquire("job");
  await clock.advance(1);
  await run("DEL", key);
  expect((await lockError(clock.until(lease.extend()), "lost")).lostBy).toBe("expired");
  await clock.advance(1);
  expect(await run("EXISTS", key)).toEqual([0, 0, 0]);
});

test("B11 extend sets, and neither adds nor shortens", async () => {
  const { lock, clock, run } = world(3, { leaseMs: 10_000 });
  const lease = await lock.acquire("job");
  await clock.advance(9_000);
  await lease.extend();
  expect(await run("PTTL", key)).toEqual([10_000, 10_000, 10_000]);
  await clock.advance(1_000);
  await lease.extend(100);
  expect(await run("PTTL", key)).toEqual([9_000, 9_000, 9_000]);
  expect(lease.remaining()).toBeGreaterThan(8_800);
});

test("B13 after an outage of two leases there was one loss; nothing renews, and a new acquire works", async () => {
  let out = false;
  const subject = world(3, { leaseMs: 1_000 }, () => (out ? { lose: "request" } : undefined));
  const { clock, lock, sentOf } = subject;
  const { running, end } = await holding(subject);
  out = true;
  await clock.advance(2_000);
  out = false;
  await clock.advance(1_000);
  const sent = sentOf("extend").length;
  await clock.advance(10_000);
  expect(sentOf("extend")).toHaveLength(sent);
  expect(count(subject, "lost")).toBe(1);
  end();
  await lockError(clock.until(running), "lost");
  expect((await clock.until(lock.acquire("job"))).remaining()).toBeGreaterThan(0);
});

describe("C05 clients that never settle", () => {
  const silent = (verbs: readonly string[], options: RedlockOptions = {}) =>
    world(3, options, ({ verb }) => (verbs.includes(verb) ? { lose: "request" } : undefined));

  test.for([
    ["", {}, 10_000 + 2_500],
    [", at once where it is not to wait", { waitMs: 0 }, 5_000],
  ] as const)("C05 acquire() is unavailable in finite time by default%s", async ([, options, mostMs]) => {
    const { lock, clock } = silent(["acquire", "release"], options);
    const began = clock.monotonic;
    await lockError(clock.until(lock.acquire("job")), "unavailable");
    expect(clock.monotonic - began).toBeLessThanOrEqual(mostMs);
  });

  test("C05 extend() and release() are unavailable within a quarter of the lease, and withLock() gives the value", async () => {
    const { lock, clock } = silent(["extend", "release"]);
    const lease = await lock.acquire("job");
    for (const act of [lease.extend, lease.release]) {
      const began = clock.monotonic;
      await lockError(clock.until<unknown>(act()), "unavailable");
      expect(clock.monotonic - began).toBeLessThanOrEqual(2_500);
    }
    expect(await clock.until(lock.withLock("other", () => 42))).toBe(42);
  });

  test("C05 inspectLock() says that it cannot tell", async () => {
    const { env } = world(3);
    const clients = [1, 2, 3].map(() => ({ execute: forever }));
    const state = await env.clock.until(inspectLock(clients, "job", {}, env));
    expect(state).toMatchObject({ verdict: "unreachable", held: false });
  });
});
