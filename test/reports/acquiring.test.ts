/**
 * Public reports on acquiring: atomicity, ownership, waiting. Each test is named by the id of its report.
 */
import { setMaxListeners } from "node:events";
import { Redis } from "ioredis";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { ioredisClient } from "../../adapters/ioredis.ts";
import { memoryClient } from "../../adapters/memory/index.ts";
import { LockError } from "../../src/errors.ts";
import { createLock } from "../../src/lock.ts";
import type { Fault } from "../support/faulty-client.ts";
import { countingSignal, oneRedis, verbOf } from "../support/one-redis.ts";
import { describeRedis, type RunningRedis, startRedis } from "../support/redis.ts";
import { lockError } from "../support/rejection.ts";
import { seededRandom, settle, virtualEnvironment } from "../support/virtual-clock.ts";

const key = "lock:{job}";

describe("A01 a lease that is no whole number of ms above 0", () => {
  test.for([123.45, 0, -1, Number.NaN, Number.POSITIVE_INFINITY, "5000", 2 ** 53].map((leaseMs) => [leaseMs]))(
    "A01 %o is a config error that names the option, and nothing is sent",
    async ([leaseMs]) => {
      const { lock, client } = oneRedis();
      const acquiring = Reflect.apply(lock.acquire, lock, ["job", { leaseMs }]) as Promise<unknown>;
      const error = await lockError(acquiring, "config");
      expect(error.message).toContain("leaseMs");
      expect(error.message).toContain(String(leaseMs));
      expect(client.sent).toEqual([]);
    },
  );

  test.for([[10], [86_400_000]])("A01 %i ms are accepted", async ([leaseMs]) => {
    const { lock, run } = oneRedis();
    const lease = await lock.acquire("job", { leaseMs });
    expect(await run("PTTL", lease.key)).toBe(leaseMs);
  });
});

test("A02 no lock key is ever without an expiry, whichever command the connection is cut at", async () => {
  const cuts: Fault[] = [
    { lose: "request" },
    { lose: "reply" },
    { fail: new Error("ECONNRESET") },
    { fail: new Error("ECONNRESET"), lose: "reply" },
  ];
  let seen = 0;
  for (const cut of cuts) {
    for (let broken = 0; broken < 6; broken += 1) {
      const world = oneRedis({ leaseMs: 5_000, waitMs: 0 }, (_, place) => (place === broken ? cut : undefined));
      const { lock, clock, run } = world;
      const look = async (): Promise<void> => {
        const left = Number(await run("PTTL", key));
        expect(left === -2 || (left > 0 && left <= 5_000), `PTTL ${left}`).toBe(true);
        if (left > 0) seen += 1;
      };
      const cycle = (async () => {
        const lease = await lock.acquire("job");
        await lease.extend();
        await lease.release();
      })();
      let done = false;
      const mark = (): void => {
        done = true;
      };
      cycle.then(mark, mark);
      while (!done) {
        await look();
        await clock.advance(50);
      }
      await look();
      await clock.advance(5_000);
      expect(await run("EXISTS", key)).toBe(0);
    }
  }
  expect(seen).toBeGreaterThan(0);
});

describe("A03 an acquire that times out here and is granted there", () => {
  test("A03 is unavailable, not contended; a delete guarded by its token follows, and the next acquire succeeds", async () => {
    const faults = { acquire: [{ lose: "reply" }, { lose: "reply" }] } as const;
    const { lock, other, clock, client, run } = oneRedis({ leaseMs: 30_000, waitMs: 0 }, faults);
    const acquiring = lock.acquire("job");
    await settle();
    const token = await run("GET", key);
    await lockError(clock.until(acquiring), "unavailable");
    expect(client.sent.slice(2).map(verbOf)).toEqual(["release"]);
    expect(client.sent[2]).toContain(token);
    expect(await run("EXISTS", key)).toBe(0);
    const began = clock.monotonic;
    await other.acquire("job", { waitMs: 1_000 });
    expect(clock.monotonic - began).toBeLessThan(1_000);
  });

  const late = { acquire: [{ requestMs: 10_000 }, { requestMs: 12_000 }] } as const;

  test("A03 when it lands after the rejection it takes nothing", async () => {
    const { lock, clock, run } = oneRedis({ leaseMs: 30_000, waitMs: 0 }, late);
    const began = clock.monotonic;
    await lockError(clock.until(lock.acquire("job")), "unavailable");
    expect(clock.monotonic - began).toBeLessThan(10_000);
    for (let passed = 0; passed < 20_000; passed += 500) {
      await clock.advance(500);
      expect(await run("EXISTS", key)).toBe(0);
    }
  });

  test("A03 when it lands while another owner holds, that one's key stays", async () => {
    const { lock, other, clock, run } = oneRedis({ leaseMs: 30_000, waitMs: 0 }, late);
    await lockError(clock.until(lock.acquire("job")), "unavailable");
    const { token } = await other.acquire("job", { leaseMs: 60_000 });
    await clock.advance(15_000); // both copies have landed
    expect(await run("GET", key)).toBe(token);
  });

  test("A03 when it was never granted, the delete leaves the key of who has it by then", async () => {
    const faults = { acquire: [{ lose: "request" }, { lose: "request" }] } as const;
    const { lock, other, clock, verbs, run } = oneRedis({ leaseMs: 30_000, waitMs: 0 }, faults);
    const acquiring = lock.acquire("job");
    const { token } = await other.acquire("job");
    await lockError(clock.until(acquiring), "unavailable");
    expect(verbs()).toEqual(["acquire", "acquire", "release"]);
    expect(await run("GET", key)).toBe(token);
  });
});

describeRedis("A05 a data key of the lock's name", () => {
  let server: RunningRedis;
  let redis: Redis;
  beforeAll(async () => {
    server = await startRedis();
    redis = new Redis(server.port);
  });
  afterAll(async () => {
    redis.disconnect();
    await server.stop();
  });

  test("A05 the lock stands under a prefix, and the data stays as it was", async () => {
    await redis.set("foo", "bar");
    const lease = await createLock(ioredisClient(redis)).acquire("foo");
    expect(lease.key.startsWith("lock:")).toBe(true);
    expect(await redis.get("foo")).toBe("bar");
    expect((await redis.keys("*")).sort()).toEqual(["foo", lease.key, `${lease.key}:fence`].sort());
    await lease.release();
  });

  test("A05 a foreign value under the lock's own key is contention, and is never overwritten", async () => {
    await redis.set("lock:{taken}", "theirs");
    await lockError(createLock(ioredisClient(redis)).acquire("taken", { waitMs: 0 }), "contended");
    expect(await redis.get("lock:{taken}")).toBe("theirs");
  });

  test("A05 an empty prefix is a config error", () => {
    expect(() => createLock(ioredisClient(redis), { prefix: "" })).toThrow(expect.objectContaining({ code: "config" }));
  });
});

describe("A06 contention, outage, time-out, abort and loss are told apart", () => {
  test("A06 by codes that are plain strings, and by no class", async () => {
    const { lock, other, clock } = oneRedis();
    await other.acquire("job", { leaseMs: 60_000 });
    const down = oneRedis({ waitMs: 0 }, { always: { fail: new Error("connect ECONNREFUSED 127.0.0.1:6379") } });
    const stolen = oneRedis();
    const lease = await stolen.lock.acquire("job");
    await stolen.run("SET", key, "theirs");

    const codeOf = (promise: Promise<unknown>): Promise<unknown> =>
      promise.then(
        () => "none",
        (error: unknown) => Reflect.get(Object(error), "code"),
      );
    expect(await codeOf(lock.acquire("job", { waitMs: 0 }))).toBe("contended");
    expect(await codeOf(clock.until(lock.acquire("job", { waitMs: 100 })))).toBe("timeout");
    expect(await codeOf(down.clock.until(down.lock.acquire("job")))).toBe("unavailable");
    expect(await codeOf(lock.acquire("job", { signal: AbortSignal.abort() }))).toBe("aborted");
    expect(await codeOf(lease.extend())).toBe("lost");
  });

  test("A06 a time-out has contention as its cause", async () => {
    const { lock, other, clock } = oneRedis();
    await other.acquire("job", { leaseMs: 60_000 });
    const { cause } = await lockError(clock.until(lock.acquire("job", { waitMs: 100 })), "timeout");
    expect(cause).toBeInstanceOf(LockError);
    expect(cause).toHaveProperty("code", "contended");
  });
});

test("A07 the wait does not depend on the lease, and the lease counts from the grant", async () => {
  const { lock, other, clock } = oneRedis();
  const holder = await other.acquire("job", { leaseMs: 60_000 });
  const began = clock.monotonic;
  const acquiring = lock.acquire("job", { leaseMs: 200, waitMs: 2_000 });
  await clock.advance(1_000);
  await holder.release();
  const lease = await clock.until(acquiring);
  expect(clock.monotonic - began).toBeGreaterThanOrEqual(1_000);
  expect(clock.monotonic - began).toBeLessThanOrEqual(1_000 + 1_500);
  expect(lease.remaining()).toBeGreaterThan(150);
});

describe("A08 waiting can be ended", () => {
  test("A08 an abort while contended rejects at once; no command follows, and no timer is left", async () => {
    const { lock, clock, client, run } = oneRedis();
    await run("SET", key, "theirs", "PX", 60_000);
    const { controller } = countingSignal();
    const acquiring = lock.acquire("job", { signal: controller.signal, waitMs: 60_000 });
    await clock.advance(50);
    const before = { sent: client.sent.length, at: clock.monotonic };
    controller.abort();
    await lockError(acquiring, "aborted");
    expect(clock.monotonic).toBe(before.at);
    expect(clock.pending).toEqual([]);
    await clock.advance(60_000);
    expect(client.sent).toHaveLength(before.sent);
  });

  test("A08 a signal that has aborted before sends nothing", async () => {
    const { lock, client } = oneRedis();
    await lockError(lock.acquire("job", { signal: AbortSignal.abort() }), "aborted");
    expect(client.sent).toEqual([]);
  });

  test.for([
    ["before it", { replyMs: 200 }, 1],
    ["after it", { requestMs: 200 }, 0],
  ] as const)(
    "A08 an abort while the request is under way leaves no key, where it is applied %s",
    async ([, way, has]) => {
      const { lock, clock, run } = oneRedis({}, { acquire: [way] });
      const { controller, listeners } = countingSignal();
      const acquiring = lock.acquire("job", { signal: controller.signal });
      await clock.advance(50);
      expect(await run("EXISTS", key)).toBe(has);
      controller.abort();
      await lockError(clock.until(acquiring), "aborted");
      expect(await run("EXISTS", key)).toBe(0);
      await clock.advance(1_000); // by now it has been applied
      expect(await run("EXISTS", key)).toBe(0);
      expect([clock.pending, listeners()]).toEqual([[], 0]);
    },
  );

  test("A08 a client that is closed for good is unavailable by the end of waitMs", async () => {
    const { lock, clock } = oneRedis({ waitMs: 1_000 }, { always: { fail: new Error("Connection is closed.") } });
    const began = clock.monotonic;
    await lockError(clock.until(lock.acquire("job")), "unavailable");
    expect(clock.monotonic - began).toBeLessThanOrEqual(1_000);
  });
});

describe("A09 a long-lived signal", () => {
  /** Waits a hundred times in vain, with five tries or more each time. */
  async function waitInVain(signal: AbortSignal): Promise<void> {
    const { lock, other, clock, client } = oneRedis({ waitMs: 1_000 });
    await other.acquire("job", { leaseMs: 86_400_000 });
    for (let i = 0; i < 100; i += 1) {
      const before = client.sent.length;
      await lockError(clock.until(lock.acquire("job", { signal })), "timeout");
      expect(client.sent.length - before).toBeGreaterThanOrEqual(5);
    }
  }

  test("A09 has as many listeners after a hundred waits as before", async () => {
    const { controller, listeners } = countingSignal();
    await waitInVain(controller.signal);
    expect(listeners()).toBe(0);
  });

  test("A09 causes no warning of Node", async () => {
    const warnings: Error[] = [];
    const onWarning = (warning: Error): void => void warnings.push(warning);
    process.on("warning", onWarning);
    const { signal } = new AbortController();
    setMaxListeners(1, signal); // by itself Node warns of no AbortSignal any more
    await waitInVain(signal);
    await settle();
    process.off("warning", onWarning);
    expect(warnings).toEqual([]);
  });
});

describe("A10 the pauses between tries", () => {
  /** When each of 50 waiters sent its requests, behind a holder of 10 s. */
  async function waiters(): Promise<number[][]> {
    const env = virtualEnvironment();
    const redis = memoryClient({}, env);
    await redis.execute(["SET", key, "theirs", "PX", 10_000]);
    const began = env.clock.monotonic;
    const sentAt: number[][] = Array.from({ length: 50 }, () => []);
    const waiting = sentAt.map((times, index) => {
      const client = {
        execute(command: Parameters<typeof redis.execute>[0]) {
          if (verbOf(command) === "acquire") times.push(env.clock.monotonic - began);
          return redis.execute(command);
        },
      };
      const lock = createLock(client, {}, { ...env, random: seededRandom(index + 1) });
      return lock.withLock("job", { waitMs: 9_900 }, () => expect.fail("ran")).catch(() => {});
    });
    await env.clock.until(Promise.all(waiting));
    return sentAt;
  }

  test("A10 are bounded on both sides, and 50 waiters do not poll in step", async () => {
    const sentAt = await waiters();
    for (const times of sentAt) {
      const pauses = times.slice(1, -1).map((at, index) => at - (times[index] ?? 0));
      for (const pause of pauses) {
        expect(pause).toBeGreaterThanOrEqual(20);
        expect(pause).toBeLessThanOrEqual(1_500);
      }
      expect(times.length).toBeLessThanOrEqual(20);
    }
    const buckets = new Map<number, number>();
    for (const [, first = 0] of sentAt) {
      const bucket = Math.floor(first / 5);
      buckets.set(bucket, (buckets.get(bucket) ?? 0) + 1);
    }
    expect(Math.max(...buckets.values())).toBeLessThanOrEqual(0.2 * sentAt.length);
  });
});
