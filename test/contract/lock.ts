/**
 * What every lock must keep to, over every client: one suite, written once. A test of a kind of lock calls
 *
 * ```ts
 * lockContract("createLock() over ioredis", async () => {
 *   const server = await startRedis();
 *   const redis = new Redis(server.port);
 *   const client = ioredisClient(redis);
 *   return {
 *     createLock: (options) => createLock(client, options),
 *     clients: [client],
 *     async close() {
 *       redis.disconnect();
 *       await server.stop();
 *     },
 *   };
 * });
 * ```
 *
 * `build` is called once; each test has a name of its own.
 *
 * @module
 */
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { Command, CommandClient, Reply } from "../../src/command.ts";
import type { Environment } from "../../src/environment.ts";
import type { LeaseholdEvent } from "../../src/events.ts";
import { inspectLock } from "../../src/inspect.ts";
import { lockKeys } from "../../src/keys.ts";
import type { Lease } from "../../src/lease.ts";
import type { Lock, LockOptions } from "../../src/lock-methods.ts";
import { shortened } from "../support/one-redis.ts";
import { lockError } from "../support/rejection.ts";
import type { VirtualClock } from "../support/virtual-clock.ts";

/** What `build` hands to {@link lockContract}. */
export interface LockUnderTest {
  /** A lock on the same Redis, or the same quorum of them, each time. */
  createLock(options?: LockOptions): Lock;
  /** Each Redis that takes part, for raw commands. */
  readonly clients: readonly CommandClient[];
  /** Where time is virtual: then nothing here waits. */
  readonly env?: Environment & { readonly clock: VirtualClock };
  close(): Promise<void>;
}

/** Registers the suite under the name of the lock and its client. */
export function lockContract(name: string, build: () => Promise<LockUnderTest>): void {
  describe(name, () => {
    const context = contextOf(build);
    acquireTests(context);
    leaseTests(context);
    releaseTests(context);
    taskTests(context);
    nameTests(context);
    reportingTests(context);
  });
}

/** What the tests of the suite share. */
interface Context {
  subject(): LockUnderTest;
  /** Waits for a promise, on the virtual clock where there is one. */
  settled<T>(promise: Promise<T>): Promise<T>;
  /** Sends a raw command to each Redis. */
  everywhere(...command: Command): Promise<Reply[]>;
}

function contextOf(build: () => Promise<LockUnderTest>): Context {
  let built: LockUnderTest | undefined;
  beforeAll(async () => {
    built = await build();
  });
  afterAll(() => built?.close());
  const subject = (): LockUnderTest => built ?? expect.fail("Cannot run as build() failed");
  return {
    subject,
    settled: (promise) => subject().env?.clock.until(promise) ?? promise,
    everywhere: (...command) => Promise.all(subject().clients.map((client) => client.execute(command))),
  };
}

let names = 0;

/** A name that no other test uses. */
function fresh(): string {
  names += 1;
  return `contract ${names}`;
}

/** What is left of a lease on a majority, in ms: a node beyond it may be asked later than the call returns. */
function leftOnMost(replies: readonly Reply[]): number {
  const sorted = replies.map(Number).sort((a, b) => b - a);
  return sorted[Math.floor(sorted.length / 2)] ?? -1;
}

/** How many of the replies are this one; a quorum has it on most nodes at least. */
function expectMost(replies: readonly Reply[], wanted: Reply): void {
  expect(replies.filter((reply) => reply === wanted).length).toBeGreaterThan(replies.length / 2);
}

/** Resolves at the first event of a type; `observe` is the observer to give to the lock. */
function firstEvent(type: LeaseholdEvent["type"]): {
  readonly seen: Promise<LeaseholdEvent>;
  observe(event: LeaseholdEvent): void;
} {
  let report: (event: LeaseholdEvent) => void = () => {};
  const seen = new Promise<LeaseholdEvent>((resolve) => {
    report = resolve;
  });
  return { seen, observe: (event) => event.type === type && report(event) };
}

/** Resolves when the lease is lost. */
function lossOf({ signal }: Lease): Promise<void> {
  return new Promise((resolve) => signal.addEventListener("abort", () => resolve()));
}

function acquireTests({ subject, settled, everywhere }: Context): void {
  test("acquire() puts the lease's token under its key, with the lease as its expiry", async () => {
    const name = fresh();
    const lease = await settled(subject().createLock().acquire(name, { leaseMs: 60_000 }));
    expect(lease).toMatchObject({ name, key: `lock:{${name}}` });
    expectMost(await everywhere("GET", lease.key), lease.token);
    for (const left of await everywhere("PTTL", lease.key)) {
      expect(left).toBeLessThanOrEqual(60_000);
      expect(left).not.toBe(-1);
    }
    expect(lease.remaining()).toBeGreaterThan(0);
    expect(lease.remaining()).toBeLessThanOrEqual(60_000 - 602);
    lease.assertHeld();
    expect(await settled(lease.release())).toBe("released");
  });

  test("acquire() refuses a second holder until the lease ends, and says when that is", async () => {
    const name = fresh();
    const [lock, other] = [subject().createLock(), subject().createLock()];
    const lease = await settled(lock.acquire(name, { leaseMs: 60_000 }));
    for (const rival of [lock, other]) {
      const { retryAfterMs } = await lockError(settled(rival.acquire(name, { waitMs: 0 })), "contended");
      expect(retryAfterMs).toBeGreaterThan(0);
      expect(retryAfterMs).toBeLessThanOrEqual(60_000);
      expect(await settled(rival.tryAcquire(name))).toBeNull();
      const skipped = await settled(rival.tryWithLock(name, () => expect.fail("ran")));
      expect(skipped).toEqual({ ran: false, retryAfterMs: expect.any(Number) });
    }
    await settled(lease.release());
    const next = await settled(other.acquire(name, { waitMs: 0 }));
    expect(next.fence).toBeGreaterThan(lease.fence);
    await settled(next.release());
  });

  test("L03 acquire() of a name whose fences would no longer be exact is refused each time, and leaves nothing held", async () => {
    const name = fresh();
    const { lock, fence } = lockKeys("lock", name);
    await everywhere("SET", fence, "9007199254740992"); // 2 ** 53: the next one is the same to a double
    for (let i = 0; i < 2; i += 1) {
      await lockError(settled(subject().createLock().acquire(name, { waitMs: 0 })), "config");
      for (const reply of await everywhere("EXISTS", lock)) expect(reply).toBe(0);
    }
  });

  test("acquire() waits for a holder to let go", async () => {
    const name = fresh();
    const { seen, observe } = firstEvent("contended");
    const holder = await settled(subject().createLock().acquire(name, { leaseMs: 60_000 }));
    const waiting = subject().createLock({ observe }).acquire(name);
    await settled(seen);
    await settled(holder.release());
    const lease = await settled(waiting);
    expect(lease.fence).toBeGreaterThan(holder.fence);
    await settled(lease.release());
  });

  test("acquire() gives up when waitMs is over: another held it for all of that time", async () => {
    const name = fresh();
    const lock = subject().createLock();
    const holder = await settled(lock.acquire(name, { leaseMs: 60_000 }));
    const error = await lockError(settled(lock.acquire(name, { waitMs: 50 })), "timeout");
    expect(error.cause).toMatchObject({ code: "contended" });
    expect(error.nodes?.length).toBeGreaterThan(0);
    expectMost(await everywhere("GET", holder.key), holder.token);
    await settled(holder.release());
  });

  test("acquire() ends when the caller's signal aborts, and takes nothing", async () => {
    const name = fresh();
    const { seen, observe } = firstEvent("contended");
    const holder = await settled(subject().createLock().acquire(name, { leaseMs: 60_000 }));
    const controller = new AbortController();
    const waiting = subject().createLock({ observe }).acquire(name, { signal: controller.signal });
    const reason = new Error("enough");
    const aborted = lockError(waiting, "aborted");
    await settled(seen);
    controller.abort(reason);
    expect((await settled(aborted)).cause).toBe(reason);
    await lockError(settled(subject().createLock().acquire(name, { signal: controller.signal })), "aborted");
    expectMost(await everywhere("GET", holder.key), holder.token);
    await settled(holder.release());
  });

  test.for<[what: string, command: (key: string) => Command, type: string]>([
    ["a string of someone else's", (key) => ["SET", key, "theirs"], "string"],
    ["a hash", (key) => ["HSET", key, "field", "value"], "hash"],
  ])("%s under the lock's key is contention, and is never overwritten", async ([, command, type]) => {
    const name = fresh();
    const key = `lock:{${name}}`;
    await everywhere(...command(key));
    const error = await lockError(settled(subject().createLock().acquire(name, { waitMs: 0 })), "contended");
    expect(error.retryAfterMs).toBeUndefined();
    for (const reply of await everywhere("TYPE", key)) expect(reply).toBe(type);
  });

  test("fences only grow, from holder to holder and from lock to lock", async () => {
    const name = fresh();
    const locks = [subject().createLock(), subject().createLock()];
    let last = 0;
    for (let i = 0; i < 10; i += 1) {
      for (const lock of locks) {
        const lease = await settled(lock.acquire(name));
        expect(Number.isSafeInteger(lease.fence)).toBe(true);
        expect(lease.fence).toBeGreaterThan(last);
        last = lease.fence;
        await settled(lease.release());
      }
    }
  });

  test("a data key of the same name is left alone", async () => {
    const name = fresh();
    await everywhere("SET", name, "data");
    const lease = await settled(subject().createLock().acquire(name));
    expect(lease.key).not.toBe(name);
    await settled(lease.release());
    for (const reply of await everywhere("GET", name)) expect(reply).toBe("data");
  });
}

function leaseTests({ subject, settled, everywhere }: Context): void {
  test("extend() sets what is left, and returns the same lease", async () => {
    const lease = await settled(subject().createLock().acquire(fresh(), { leaseMs: 20_000 }));
    expect(await settled(lease.extend(90_000))).toBe(lease);
    expect(lease.remaining()).toBeGreaterThan(60_000);
    expect(leftOnMost(await everywhere("PTTL", lease.key))).toBeGreaterThan(60_000);
    await settled(lease.extend(1_000));
    expect(lease.remaining()).toBeGreaterThan(60_000);
    await settled(lease.extend());
    expect(leftOnMost(await everywhere("PTTL", lease.key))).toBeGreaterThan(60_000);
    expect(await settled(lease.release())).toBe("released");
  });

  test.for<[what: string, command: (key: string) => Command, lostBy: string, left: Reply]>([
    ["a key that is gone", (key) => ["DEL", key], "expired", null],
    ["another's token", (key) => ["SET", key, "theirs"], "stolen", "theirs"],
  ])("extend() that finds %s loses the lease, and changes nothing", async ([, command, lostBy, left]) => {
    const lease = await settled(subject().createLock().acquire(fresh(), { leaseMs: 60_000 }));
    await everywhere(...command(lease.key));
    expect((await lockError(settled(lease.extend()), "lost")).lostBy).toBe(lostBy);
    expect(lease.remaining()).toBe(0);
    expect(lease.signal.reason).toMatchObject({ code: "lost", lostBy });
    expect(() => lease.assertHeld()).toThrow(expect.objectContaining({ code: "lost" }));
    for (const reply of await everywhere("GET", lease.key)) expect(reply).toBe(left);
    await lockError(settled(lease.extend()), "lost");
  });

  test("a lease that is not extended ends by itself, and another can have the name", async () => {
    const name = fresh();
    const lease = await settled(subject().createLock().acquire(name, { leaseMs: 200 }));
    await settled(lossOf(lease));
    expect(lease.signal.reason).toMatchObject({ code: "lost", lostBy: "expired" });
    expect(lease.remaining()).toBe(0);
    const next = await settled(subject().createLock().acquire(name, { leaseMs: 60_000 }));
    expect(next.fence).toBeGreaterThan(lease.fence);
    expect(await settled(lease.release())).toBe("stolen");
    expectMost(await everywhere("GET", next.key), next.token);
    expect(await settled(next.release())).toBe("released");
  });
}

function releaseTests({ subject, settled, everywhere }: Context): void {
  test("release() frees the lock on every node, once", async () => {
    const lease = await settled(subject().createLock().acquire(fresh()));
    expect(await settled(lease.release())).toBe("released");
    for (const reply of await everywhere("EXISTS", lease.key)) expect(reply).toBe(0);
    expect(await settled(lease.release())).toBe("already-released");
    expect(lease.remaining()).toBe(0);
    expect(lease.signal.aborted).toBe(false);
    await lockError(settled(lease.extend()), "lost");
  });

  test("release() of a key that is gone says expired", async () => {
    const lease = await settled(subject().createLock().acquire(fresh()));
    await everywhere("DEL", lease.key);
    expect(await settled(lease.release())).toBe("expired");
    expect(await settled(lease.release())).toBe("already-released");
  });

  test("release() of a key that another has says stolen, and leaves it", async () => {
    const lease = await settled(subject().createLock().acquire(fresh()));
    await everywhere("SET", lease.key, "theirs", "PX", 60_000);
    expect(await settled(lease.release())).toBe("stolen");
    for (const reply of await everywhere("GET", lease.key)) expect(reply).toBe("theirs");
  });

  test("await using releases at the end of the block", async () => {
    const name = fresh();
    const lock = subject().createLock();
    const inside = async (): Promise<void> => {
      await using lease = await lock.acquire(name);
      expect(lease.remaining()).toBeGreaterThan(0);
      expect(await lock.tryAcquire(name)).toBeNull();
    };
    await settled(inside());
    for (const reply of await everywhere("EXISTS", `lock:{${name}}`)) expect(reply).toBe(0);
  });
}

function taskTests({ subject, settled, everywhere }: Context): void {
  test("withLock() runs the task under the lock, gives its value or its error, and releases", async () => {
    const name = fresh();
    const lock = subject().createLock();
    const value = await settled(
      lock.withLock(name, async (lease) => {
        expectMost(await everywhere("GET", lease.key), lease.token);
        return 42;
      }),
    );
    expect(value).toBe(42);
    const boom = new Error("boom");
    await expect(settled(lock.withLock(name, { waitMs: 0 }, () => Promise.reject(boom)))).rejects.toBe(boom);
    expect(await settled(lock.tryWithLock(name, () => 7))).toEqual({ ran: true, value: 7 });
    for (const reply of await everywhere("EXISTS", `lock:{${name}}`)) expect(reply).toBe(0);
  });

  test("withLock() renews while the task runs", async () => {
    const { seen, observe } = firstEvent("renewed");
    const lock = subject().createLock({ observe, leaseMs: 2_000 });
    const left = await settled(
      lock.withLock(fresh(), async (lease) => {
        await seen;
        return [lease.remaining(), ...(await everywhere("PTTL", lease.key))];
      }),
    );
    for (const ms of left) expect(ms).toBeGreaterThan(0);
  });

  test("withLock() whose lock is taken away meanwhile rejects lost with the task's value, and frees nothing of another's", async () => {
    const name = fresh();
    const key = `lock:{${name}}`;
    const running = subject()
      .createLock()
      .withLock(name, async (lease) => {
        await everywhere("SET", key, "theirs", "PX", 60_000);
        await lease.extend().catch(() => {});
        return "done";
      });
    expect(await lockError(settled(running), "lost")).toMatchObject({ lostBy: "stolen", result: "done" });
    for (const reply of await everywhere("GET", key)) expect(reply).toBe("theirs");
  });

  test("tasks of one name run one at a time, whichever lock they come from", async () => {
    const name = fresh();
    let running = 0;
    let most = 0;
    let total = 0;
    const task = async (): Promise<void> => {
      running += 1;
      most = Math.max(most, running);
      const before = total;
      await everywhere("PING");
      total = before + 1;
      running -= 1;
    };
    const locks = [subject().createLock(), subject().createLock(), subject().createLock()];
    await settled(Promise.all(locks.flatMap((lock) => [lock.withLock(name, task), lock.withLock(name, task)])));
    expect({ most, total }).toEqual({ most: 1, total: 6 });
  });
}

const oddNames = [
  "a",
  " ",
  "a b\tc\r\nd",
  "grüße ☃ 😀 漢字",
  "{",
  "}",
  "{}",
  "{x}",
  "x}y{z",
  "{a}{b}",
  "user:{42}:profile",
  "50%",
  "%7B",
  'quote " back \\ slash',
  "\0",
  "a:fence",
  "a:void:b",
  "123",
  "null",
  "x".repeat(1_000),
];

function nameTests({ subject, settled, everywhere }: Context): void {
  test("any name has a lock of its own, free of all others", async () => {
    const lock = subject().createLock();
    const leases: Lease[] = [];
    for (const name of oddNames) {
      const lease = await settled(lock.acquire(name, { waitMs: 0, leaseMs: 60_000 }));
      expect(lease.name).toBe(name);
      expectMost(await everywhere("GET", lease.key), lease.token);
      expect(await settled(lock.tryAcquire(name))).toBeNull();
      leases.push(lease);
    }
    expect(new Set(leases.map(({ key }) => key)).size).toBe(oddNames.length);
    for (const lease of leases) expect(await settled(lease.release())).toBe("released");
  });

  test("fifty names are held at once", async () => {
    const lock = subject().createLock({ leaseMs: 60_000 });
    const leases = await settled(Promise.all(Array.from({ length: 50 }, () => lock.acquire(fresh()))));
    for (const lease of leases) expect(lease.remaining()).toBeGreaterThan(0);
    const outcomes = await settled(Promise.all(leases.map((lease) => lease.release())));
    expect(outcomes).toEqual(outcomes.map(() => "released"));
  });

  test("two prefixes do not meet", async () => {
    const name = fresh();
    const [one, two] = [subject().createLock({ prefix: "one" }), subject().createLock({ prefix: "two" })];
    const leases = [await settled(one.acquire(name)), await settled(two.acquire(name, { waitMs: 0 }))];
    for (const lease of leases) expect(await settled(lease.release())).toBe("released");
  });
}

function reportingTests({ subject, settled, everywhere }: Context): void {
  test("inspectLock() says who holds, with which fence and for how long", async () => {
    const name = fresh();
    const { clients, env, createLock } = subject();
    const look = () => settled(inspectLock(clients, name, {}, env));
    expect(await look()).toMatchObject({ verdict: "free", held: false, fence: 0 });
    const lease = await settled(createLock().acquire(name, { leaseMs: 60_000 }));
    const state = await look();
    expect(state).toMatchObject({ verdict: "held", held: true, token: shortened(lease), fence: lease.fence });
    expect(state.remainingMs).toBeGreaterThan(0);
    expect(state.remainingMs).toBeLessThanOrEqual(60_000);
    expect(state.nodes).toHaveLength(clients.length);
    await settled(lease.release());
    expect(await look()).toMatchObject({ held: false, fence: lease.fence });
  });

  test("events tell what happened, in order, and no token", async () => {
    const name = fresh();
    const events: LeaseholdEvent[] = [];
    const lock = subject().createLock({ observe: (event) => void events.push(event) });
    const lease = await settled(lock.acquire(name));
    await settled(lock.tryAcquire(name));
    await settled(lease.extend());
    await settled(lease.release());
    const lost = await settled(lock.acquire(name));
    await everywhere("DEL", lost.key);
    await lockError(settled(lost.extend()), "lost");
    // A quorum is decided before all have answered, and what it has tried in vain is cleaned up behind.
    const behind = (type: string): boolean => type === "late-grant" || type === "rolled-back";
    const types = events.map(({ type }) => type).filter((type) => !behind(type));
    expect(types).toEqual(["acquired", "contended", "acquire-failed", "extended", "released", "acquired", "lost"]);
    for (const event of events) {
      expect(event.name).toBe(name);
      const fenced = !/^(contended|acquire-failed|rolled-back)$/.test(event.type);
      if (fenced) expect(event).toHaveProperty("fence", expect.any(Number));
      if (event.type !== "lost") expect(event.nodes.length).toBeGreaterThan(0);
    }
    for (const { token } of [lease, lost]) expect(JSON.stringify(events)).not.toContain(token);
  });
}
