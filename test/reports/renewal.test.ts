/**
 * Public reports on renewal, the watchdog and lost locks. Each test is named by the id of its report.
 */
import { afterEach, describe, expect, test, vi } from "vitest";
import { memoryClient } from "../../adapters/memory/index.ts";
import type { LeaseholdEvent } from "../../src/events.ts";
import type { Lease } from "../../src/lease.ts";
import { createLock } from "../../src/lock.ts";
import type { Lock } from "../../src/lock-methods.ts";
import { createRedlock } from "../../src/redlock.ts";
import { bothLocks, key } from "../redlock/world.ts";
import type { Fault } from "../support/faulty-client.ts";
import { type OneRedis, oneRedis, verbOf } from "../support/one-redis.ts";
import { runProgram } from "../support/program.ts";
import { lockError } from "../support/rejection.ts";
import { forever, lasting, settle } from "../support/virtual-clock.ts";

const count = ({ events }: OneRedis, wanted: string): number => events.filter(({ type }) => type === wanted).length;
const extendsOf = ({ verbs }: OneRedis): number => verbs().filter((verb) => verb === "extend").length;

test("B01 a renewal that comes too late does not take the lock again", async () => {
  const world = oneRedis({ leaseMs: 100 });
  let lease: Lease | undefined;
  const running = world.lock.withLock("job", async (held) => {
    lease = held;
    await lasting(world.clock, 1_000);
  });
  const lost = lockError(running, "lost");
  await settle();
  world.clock.freeze(110); // all of A stands still, its timers too
  await (await world.other.acquire("job")).release();
  world.clock.freeze(40);
  await world.clock.advance(1);
  expect(lease?.signal.reason).toMatchObject({ code: "lost", lostBy: "expired" });
  expect(await world.run("EXISTS", key)).toBe(0); // before a release could have tidied up
  await world.clock.until(lost);
  expect(count(world, "lost")).toBe(1);
  expect(await world.run("EXISTS", key)).toBe(0);
});

test("B02 a loss that nobody listens for ends no process, and withLock() rejects lost", async () => {
  const ended = await runProgram(
    `
      import { createLock } from "leasehold";
      import { memoryClient } from "leasehold/memory";

      const alive = setInterval(() => {}, 1_000); // no timer of a lease keeps a process alive
      const client = memoryClient();
      const lock = createLock(client, { leaseMs: 200 });
      const lossOf = ({ signal }) =>
        new Promise((resolve) => signal.addEventListener("abort", () => resolve(signal.reason.code)));

      const unwatched = await lock.acquire("unwatched");
      await client.execute(["DEL", unwatched.key]);
      const outcome = await lock
        .withLock("job", async (lease) => {
          await client.execute(["DEL", lease.key]);
          console.log(await lossOf(lease), await lossOf(unwatched));
        })
        .catch((error) => error.code);
      console.log(outcome);
      clearInterval(alive);
    `,
    ["--unhandled-rejections=strict"],
  );
  expect(ended).toEqual({ code: 0, stdout: "lost lost\nlost\n", stderr: "" });
}, 30_000);

describe.for(bothLocks)("B04 nothing renews after the release: %s", ([, build]) => {
  test("B04 although a renewal was under way, and is answered after it", async () => {
    const world = build({ leaseMs: 10_000 }, ({ verb, node }) =>
      verb === "extend" ? { requestMs: 50, replyMs: 50 * (node + 1) } : undefined,
    );
    const { clock, sent, sentOf } = world;
    let end = (): void => {};
    const running = world.lock.withLock("job", () => new Promise<void>((resolve) => (end = resolve)));
    while (sentOf("extend").length === 0) await clock.advance(10);
    end();
    await clock.until(running);
    const before = sent.length;
    await clock.advance(200); // by now it is answered
    expect(clock.pending).toEqual([]);
    await clock.advance(10 * 5_000);
    expect(sent).toHaveLength(before);
  });

  test("B04 although the abort came between the grant and the first timer", async () => {
    const controller = new AbortController();
    const observe = ({ type }: LeaseholdEvent): void => void (type === "acquired" && controller.abort("enough"));
    const { lock, clock, run, sentOf, nodes } = build({ leaseMs: 10_000, observe });
    const running = lock.withLock("job", { signal: controller.signal }, async ({ signal }) => {
      signal.throwIfAborted();
    });
    await expect(clock.until(running)).rejects.toBe("enough");
    expect(clock.pending).toEqual([]);
    await clock.advance(50_000);
    expect(sentOf("extend")).toEqual([]);
    expect(await run("EXISTS", key)).toEqual(nodes.map(() => 0));
  });

  test("B04 a lock that is taken again at once has one renewal, not two", async () => {
    const { lock, clock, sentOf } = build({ leaseMs: 10_000 });
    await clock.until(lock.withLock("job", () => lasting(clock, 1_000)));
    await clock.until(lock.withLock("job", () => lasting(clock, 40_000)));
    expect(sentOf("extend", 0).length).toBeGreaterThanOrEqual(8); // one each 4.5 to 5 s
    expect(sentOf("extend", 0).length).toBeLessThanOrEqual(9);
  });
});

const losses = bothLocks.flatMap(([name, build]) => [
  [name, "its key is deleted", build] as const,
  [name, "there is an outage", build] as const,
]);

test.for(losses)(
  "B05 after a loss the next lock of the same name is renewed as ever: %s, as %s",
  async ([, why, build]) => {
    let down = false;
    const { lock, clock, run } = build({ leaseMs: 1_000 }, () => (down ? { lose: "request" } : undefined));
    const first = lock.withLock("job", async () => {
      if (why === "there is an outage") down = true;
      else await run("DEL", key);
      await lasting(clock, 1_500);
      down = false;
    });
    await lockError(clock.until(first), "lost");
    let lease: Lease | undefined;
    const second = lock.withLock("job", async (held) => {
      lease = held;
      await lasting(clock, 5_000);
    });
    await clock.advance(1); // by now it is on all nodes
    for (let passed = 0; passed < 4_900; passed += 100) {
      await clock.advance(100);
      for (const left of await run("PTTL", key)) expect(Number(left)).toBeGreaterThan(1_000 / 3);
    }
    expect(lease?.signal.aborted).toBe(false);
    await clock.until(second);
  },
);

describe("B06 one failed renewal is not the end", () => {
  test("B06 a lost connection is got over, and the lock is still held after two leases", async () => {
    const world = oneRedis({ leaseMs: 30_000 }, { extend: [{ fail: new Error("ECONNRESET") }] });
    let lease: Lease | undefined;
    const running = world.lock.withLock("job", async (held) => {
      lease = held;
      await lasting(world.clock, 70_000);
    });
    await world.clock.advance(60_000);
    expect(lease?.signal.aborted).toBe(false);
    expect(await world.run("GET", key)).toBe(lease?.token);
    await world.clock.until(running);
  });

  test("B06 if every try fails the loss comes by the deadline of the last success, and not before", async () => {
    const world = oneRedis({ leaseMs: 30_000 }, (command) =>
      verbOf(command) === "extend" && world.clock.monotonic > 20_000 ? { fail: new Error("ECONNRESET") } : undefined,
    );
    let renewedAt = 0;
    const lostAt = new Promise<number>((resolve) => {
      const running = world.lock.withLock("job", async ({ signal }) => {
        signal.addEventListener("abort", () => resolve(world.clock.monotonic));
        await lasting(world.clock, 100_000);
      });
      running.catch(() => {});
    });
    while (world.clock.monotonic < 20_000) {
      const before = count(world, "renewed");
      await world.clock.advance(10);
      if (count(world, "renewed") > before) renewedAt = world.clock.monotonic;
    }
    const held = (await world.clock.until(lostAt)) - renewedAt;
    expect(held).toBeLessThanOrEqual(30_000 - 302);
    expect(held).toBeGreaterThanOrEqual(30_000 - 302 - 10);
  });
});

describe.for(bothLocks)("B07 a process that was blocked past its lease: %s", ([, build]) => {
  const codeOfAssertHeld = (lease: Lease): unknown => {
    try {
      return lease.assertHeld();
    } catch (error) {
      return Reflect.get(Object(error), "code");
    }
  };

  /** What a task that is blocked for two leases sees by its first look after it. */
  async function firstLook(look: (lease: Lease) => unknown, fault?: Parameters<typeof build>[1]): Promise<unknown> {
    const { lock, clock, nodes, verbs } = build({ leaseMs: 200 }, fault);
    let [thawed, seen]: [number, unknown] = [0, undefined];
    const running = lock.withLock("job", (lease) => {
      clock.freeze(400);
      thawed = clock.monotonic;
      seen = look(lease);
    });
    expect((await lockError(clock.until(running), "lost")).lostBy).toBe("expired");
    expect(clock.monotonic - thawed).toBeLessThan(100);
    expect(verbs()).toEqual(nodes.map(() => ["acquire", "release"]));
    return seen;
  }

  test.for<[what: string, look: (lease: Lease) => unknown, seen: unknown]>([
    ["by remaining()", (lease) => lease.remaining(), 0],
    ["by its signal", (lease) => lease.signal.aborted, true],
    ["by assertHeld()", codeOfAssertHeld, "lost"],
    ["though its task does not look", () => "done", "done"],
  ])("B07 knows at once %s, before any timer has run, and lets go once", async ([, look, seen]) => {
    expect(await firstLook(look)).toBe(seen);
  });

  test("B07 wastes no time on a release that fails: what is over is let go of once", async () => {
    const refused: Fault = { fail: new Error("ECONNRESET") };
    expect(
      await firstLook(
        () => "done",
        ({ verb }) => (verb === "release" ? refused : undefined),
      ),
    ).toBe("done");
  });
});

describe("B08 the deadline counts from the request that was answered", () => {
  test("B08 not from the first try of a long wait", async () => {
    const { lock, other, clock } = oneRedis();
    const holder = await other.acquire("job", { leaseMs: 60_000 });
    const acquiring = lock.acquire("job", { leaseMs: 1_000 });
    await clock.advance(5_000);
    await holder.release();
    const lease = await clock.until(acquiring);
    expect(lease.remaining()).toBeGreaterThan(900);
    expect(lease.remaining()).toBeLessThanOrEqual(1_000);
  });

  test("B08 not from the acquisition where the lease was extended", async () => {
    const { lock, clock } = oneRedis({ leaseMs: 10_000 });
    const lease = await lock.acquire("job");
    await clock.advance(9_500);
    await lease.extend();
    expect(lease.remaining()).toBeGreaterThan(9_800);
  });

  test("B08 a task of three and a half leases is not ended", async () => {
    const world = oneRedis({ leaseMs: 10_000 });
    await world.clock.until(world.lock.withLock("job", () => lasting(world.clock, 35_000)));
    expect(count(world, "lost")).toBe(0);
  });
});

test("B09 the same lease is extended three times and then released", async () => {
  const { lock, clock, run } = oneRedis({ leaseMs: 10_000 });
  const lease = await lock.acquire("job");
  for (const leaseMs of [11_000, 12_000, 13_000]) {
    await clock.advance(5_000);
    await lease.extend(leaseMs);
    expect(lease.remaining()).toBe(leaseMs - leaseMs / 100 - 2);
    expect(await run("PTTL", key)).toBe(leaseMs);
  }
  expect(await lease.release()).toBe("released");
});

test("B10 an extend of a key that is gone is a loss, and does not create it", async () => {
  const { lock, run } = oneRedis();
  const lease = await lock.acquire("job");
  await run("DEL", key);
  await lockError(lease.extend(), "lost");
  expect(await run("EXISTS", key)).toBe(0);
});

describe("B11 extend sets, and neither adds nor shortens", () => {
  test("B11 10 s after 9 of 10 s are 10 s", async () => {
    const { lock, clock, run } = oneRedis({ leaseMs: 10_000 });
    const lease = await lock.acquire("job");
    await clock.advance(9_000);
    await lease.extend(10_000);
    expect(await run("PTTL", key)).toBe(10_000);
  });

  test("B11 100 ms for a lease with 9 s left are 9 s", async () => {
    const { lock, clock, run } = oneRedis({ leaseMs: 10_000 });
    const lease = await lock.acquire("job");
    await clock.advance(1_000);
    await lease.extend(100);
    expect(await run("PTTL", key)).toBe(9_000);
    expect(lease.remaining()).toBeGreaterThan(8_800);
  });
});

test.for(bothLocks)("B12 a task that hangs holds no longer than maxHoldMs and one lease: %s", async ([, build]) => {
  const { lock, clock, nodes, run, sentOf } = build({ leaseMs: 1_000 });
  let lease: Lease | undefined;
  const began = clock.monotonic;
  const running = lock.withLock("job", { maxHoldMs: 5_000 }, (held) => {
    lease = held;
    return forever();
  });
  const { lostBy } = await lockError(clock.until(running), "lost");
  expect(lostBy).toBe("maxHold");
  expect(clock.monotonic - began).toBe(5_000);
  expect(lease?.signal.reason).toMatchObject({ code: "lost", lostBy: "maxHold" });
  const renewed = sentOf("extend").length;
  expect(renewed).toBeGreaterThan(0);
  expect(clock.pending).toEqual([]);
  await clock.advance(1_001);
  expect(sentOf("extend")).toHaveLength(renewed);
  expect(await run("EXISTS", key)).toEqual(nodes.map(() => 0));
});

test("B13 after an outage of two leases there was one loss; nothing renews, and a new acquire works", async () => {
  let down = false;
  const world = oneRedis({ leaseMs: 5_000 }, () => (down ? { fail: new Error("connect ECONNREFUSED") } : undefined));
  const running = world.lock.withLock("job", () => lasting(world.clock, 60_000));
  const lost = lockError(running, "lost");
  await world.clock.advance(1_000);
  down = true;
  await world.clock.advance(10_000);
  down = false;
  const tries = extendsOf(world);
  await world.clock.advance(20_000);
  expect(extendsOf(world)).toBe(tries);
  expect(count(world, "lost")).toBe(1);
  const again = await world.clock.until(world.lock.acquire("job"));
  expect(again.remaining()).toBeGreaterThan(0);
  await again.release();
  await world.clock.until(lost);
});

describe("B14 a lease of 90 days", () => {
  const leaseMs = 90 * 86_400_000;
  afterEach(() => vi.restoreAllMocks());

  test.for(bothLocks)("B14 is not renewed in its first ten seconds, and half-way through: %s", async ([, build]) => {
    const { lock, clock, sentOf } = build({ leaseMs });
    const running = lock.withLock("job", () => lasting(clock, leaseMs));
    await clock.advance(10_000);
    expect(sentOf("extend")).toEqual([]);
    await clock.until(running, 2 * leaseMs);
    expect(sentOf("extend", 0)).toHaveLength(2);
  });

  test.for<[string, () => Lock]>([
    ["createLock()", () => createLock(memoryClient(), { leaseMs })],
    [
      "createRedlock() over 3",
      () =>
        createRedlock(
          [1, 2, 3].map(() => memoryClient()),
          { leaseMs },
        ),
    ],
  ])("B14 sets no timer that the runtime cannot hold: %s", async ([, create]) => {
    const timers = vi.spyOn(globalThis, "setTimeout");
    const warnings: Error[] = [];
    const onWarning = (warning: Error): void => void warnings.push(warning);
    process.on("warning", onWarning);
    const lock = create();
    await lock.withLock("job", async (lease) => {
      await lease.extend();
      await settle();
    });
    process.off("warning", onWarning);
    expect(timers.mock.calls.length).toBeGreaterThan(3);
    for (const [, delay] of timers.mock.calls) {
      expect(delay).toBeLessThanOrEqual(2 ** 31 - 1);
      expect(delay).toBeGreaterThanOrEqual(0);
    }
    expect(warnings).toEqual([]);
  });
});
