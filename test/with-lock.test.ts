import { describe, expect, test } from "vitest";
import { ReplyError } from "../src/command.ts";
import type { Lease } from "../src/lease.ts";
import { createLock } from "../src/lock.ts";
import type { Task } from "../src/with-lock.ts";
import { countingSignal, oneRedis } from "./support/one-redis.ts";
import { lockError } from "./support/rejection.ts";
import { forever, lasting, settle } from "./support/virtual-clock.ts";

const key = "lock:{job}";
const boom = new Error("boom");

describe("withLock()", () => {
  test("runs the task while it holds, resolves with its value, and leaves the name free", async () => {
    const { lock, run, verbs } = oneRedis();
    const value = await lock.withLock("job", async (lease) => {
      expect(await run("GET", key)).toBe(lease.token);
      expect(lease.remaining()).toBe(9_898);
      return { fence: lease.fence };
    });
    expect(value.fence).toBeGreaterThan(0);
    expect(await run("EXISTS", key)).toBe(0);
    expect(verbs()).toEqual(["acquire", "release"]);
  });

  test.for<[what: string, task: Task<unknown>, value: unknown]>([
    ["a value", () => 7, 7],
    ["nothing", () => {}, undefined],
    ["a promise", async () => 7, 7],
    ["a later one", () => Promise.resolve().then(() => 7), 7],
  ])("takes a task that returns %s", async ([, task, value]) => {
    const { lock, run } = oneRedis();
    expect(await lock.withLock("job", task)).toBe(value);
    expect(await run("EXISTS", key)).toBe(0);
  });

  test.for([
    [
      "throws",
      () => {
        throw boom;
      },
    ],
    ["rejects", () => Promise.reject(boom)],
  ] as const)("rejects with the task's own error when it %s, and releases", async ([, task]) => {
    const { lock, run } = oneRedis();
    await expect(lock.withLock("job", task)).rejects.toBe(boom);
    expect(await run("EXISTS", key)).toBe(0);
  });

  test.for([[undefined], [null], [0], ["text"]])("rejects with %o where the task throws that", async ([thrown]) => {
    const { lock, run } = oneRedis();
    const outcome = await lock
      .withLock("job", () => Promise.reject(thrown))
      .then(
        () => expect.fail("resolved"),
        (error: unknown) => [error],
      );
    expect(outcome).toEqual([thrown]);
    expect(await run("EXISTS", key)).toBe(0);
  });

  test("settles after the release has been answered", async () => {
    const { lock, clock } = oneRedis({}, { release: [{ requestMs: 100, replyMs: 100 }] });
    const began = clock.monotonic;
    await clock.until(lock.withLock("job", () => 1));
    expect(clock.monotonic - began).toBe(200);
  });

  test("with waitUntil settles before, and hands the release over", async () => {
    const work: Promise<unknown>[] = [];
    const waitUntil = (promise: Promise<unknown>): void => void work.push(promise);
    const { lock, clock, run } = oneRedis({}, { release: [{ requestMs: 100, replyMs: 100 }] });
    const began = clock.monotonic;
    await clock.until(lock.withLock("job", { waitUntil }, () => 1));
    expect(clock.monotonic).toBe(began);
    expect(work).toHaveLength(1);
    await clock.until(Promise.all(work));
    expect(await run("EXISTS", key)).toBe(0);
    expect(clock.pending).toEqual([]);
  });

  test("lets neither value nor error of the task be hidden by a release that fails", async () => {
    const fail = new ReplyError("MISCONF Redis is configured to save RDB snapshots");
    const { lock, events } = oneRedis({}, { release: [{ fail }, { fail }, { fail }, { fail }] });
    expect(await lock.withLock("job", () => 7)).toBe(7);
    await expect(lock.withLock("another job", () => Promise.reject(boom))).rejects.toBe(boom);
    expect(events.filter(({ type }) => type === "release-failed")).toHaveLength(4);
  });

  test("lets neither be hidden by a waitUntil that throws, as one that is not bound to its object does", async () => {
    const waitUntil = (): never => {
      throw new TypeError("Illegal invocation");
    };
    const { lock, run } = oneRedis({ waitUntil });
    expect(await lock.withLock("job", () => 7)).toBe(7);
    await expect(lock.withLock("job", () => Promise.reject(boom))).rejects.toBe(boom);
    expect(await run("EXISTS", key)).toBe(0);
    const lease = await lock.acquire("job");
    expect(await lease.release()).toBe("released");
  });

  test("does not run the task without the lock", async () => {
    const { lock, other, clock } = oneRedis({ waitMs: 100 });
    await other.acquire("job");
    await lockError(clock.until(lock.withLock("job", () => expect.fail("ran"))), "timeout");
    await lockError(
      lock.withLock("job", { waitMs: 0 }, () => expect.fail("ran")),
      "contended",
    );
  });

  test("a task may release early: then nothing more is sent, and its value still counts", async () => {
    const { lock, clock, verbs } = oneRedis();
    const value = lock.withLock("job", async (lease) => {
      expect(await lease.release()).toBe("released");
      await lasting(clock, 100_000);
      expect(lease.signal.aborted).toBe(false);
      return 7;
    });
    expect(await clock.until(value)).toBe(7);
    expect(verbs()).toEqual(["acquire", "release"]);
  });

  test("leaves neither timers nor listeners, whatever the task does", async () => {
    const { lock, clock } = oneRedis();
    const { controller, listeners } = countingSignal();
    const options = { signal: controller.signal, maxHoldMs: 60_000 };
    await clock.until(lock.withLock("job", options, () => lasting(clock, 30_000)));
    await clock.until(lock.withLock("job", options, () => Promise.reject(boom)).catch(() => {}));
    await clock.until(lock.tryWithLock("job", { signal: controller.signal }, () => 1));
    expect(listeners()).toBe(0);
    expect(clock.pending).toEqual([]);
  });
});

describe("withLock() that loses the lock", () => {
  test("aborts the lease's signal at once, waits for the task, and rejects lost with its value", async () => {
    const { lock, clock, run, events } = oneRedis({ leaseMs: 10_000 });
    let lease: Lease | undefined;
    const running = lock.withLock("job", async (held) => {
      lease = held;
      await lasting(clock, 30_000);
      return "done anyway";
    });
    await settle();
    await run("SET", key, "theirs");
    await clock.advance(6_000); // a renewal has met the other token
    expect(lease?.signal.reason).toMatchObject({ code: "lost", lostBy: "stolen" });
    const error = await lockError(clock.until(running), "lost");
    expect(error).toMatchObject({ lostBy: "stolen", lockName: "job", result: "done anyway" });
    expect(error.message).toBe('Cannot use the lease on "job" as it is no longer held: stolen');
    expect(await run("GET", key)).toBe("theirs");
    expect(events.map(({ type }) => type)).toEqual(["acquired", "lost", "released"]);
    expect(events.at(-1)).toMatchObject({ outcome: "stolen" });
  });

  test("a task that stops by the signal rejects with what the task throws", async () => {
    const { lock, clock, run } = oneRedis();
    const running = lock.withLock("job", async ({ signal }) => {
      await run("DEL", key);
      await lasting(clock, 8_000);
      signal.throwIfAborted();
    });
    expect(await lockError(clock.until(running), "lost")).toMatchObject({ lostBy: "expired" });
  });

  test("a task's own error wins over the loss", async () => {
    const { lock, clock, run } = oneRedis();
    const running = lock.withLock("job", async () => {
      await run("DEL", key);
      await lasting(clock, 8_000);
      throw boom;
    });
    await expect(clock.until(running)).rejects.toBe(boom);
  });

  test("a loss that nobody has noticed yet still counts when the task ends", async () => {
    const { lock, clock } = oneRedis({ leaseMs: 1_000 });
    const running = lock.withLock("job", () => {
      clock.freeze(5_000); // no timer has run
      return "too late";
    });
    expect(await lockError(clock.until(running), "lost")).toMatchObject({ lostBy: "expired", result: "too late" });
  });
});

describe("maxHoldMs", () => {
  test("keeps no process alive", async () => {
    const { lock, clock } = oneRedis();
    const running = lock.withLock("job", { maxHoldMs: 60_000 }, () => lasting(clock, 5));
    await settle();
    expect(clock.pending.filter(({ keepsAlive }) => keepsAlive)).toEqual([{ inMs: 5, keepsAlive: true }]);
    await clock.until(running);
  });

  test("says nothing of a task that has let go by itself", async () => {
    const { lock, clock, events } = oneRedis();
    const running = lock.withLock("job", { maxHoldMs: 5_000 }, async (lease) => {
      await lease.release();
      await lasting(clock, 6_000);
      return "done";
    });
    expect(await clock.until(running)).toBe("done");
    expect(events.map(({ type }) => type)).toEqual(["acquired", "released"]);
  });

  test("ends the renewing and rejects lost at once, while the task is still running", async () => {
    const { lock, clock, run, events, verbs } = oneRedis({ leaseMs: 1_000 });
    let lease: Lease | undefined;
    const began = clock.monotonic;
    const running = lock.withLock("job", { maxHoldMs: 5_000 }, (held) => {
      lease = held;
      return forever();
    });
    const error = await lockError(clock.until(running), "lost");
    expect(clock.monotonic - began).toBe(5_000);
    expect(error).toMatchObject({ lostBy: "maxHold", lockName: "job" });
    expect(error.message).toBe('Cannot use the lease on "job" as it is no longer held: maxHold');
    expect(lease?.signal.reason).toMatchObject({ lostBy: "maxHold" });
    expect(lease?.remaining()).toBe(0);
    expect(events.filter(({ type }) => type === "lost")).toMatchObject([{ by: "maxHold" }]);
    expect(await run("GET", key)).toBe(lease?.token); // the task may still write: its lease runs out first
    const sent = verbs().length;
    await clock.advance(1_001);
    expect(await run("EXISTS", key)).toBe(0);
    expect(verbs()).toHaveLength(sent);
    expect(verbs()).not.toContain("release");
    expect(clock.pending).toEqual([]);
  });

  test.for([990, 1_050])(
    "says expired after %i ms where the lease was over before, also if nobody watches",
    async (maxHoldMs) => {
      const { client, env, clock } = oneRedis({}, { acquire: [undefined], always: { lose: "request" } });
      const lock = createLock(client, { leaseMs: 1_000 }, env);
      const error = await lockError(clock.until(lock.withLock("job", { maxHoldMs }, forever)), "lost");
      expect(error.lostBy).toBe("expired");
    },
  );

  test("drops what the task comes to later, an error too", async () => {
    const { lock, clock } = oneRedis();
    const running = lock.withLock("job", { maxHoldMs: 1_000 }, async () => {
      await lasting(clock, 5_000);
      throw boom;
    });
    await lockError(clock.until(running), "lost");
    await clock.advance(10_000);
  });

  test("does nothing to a task that ends before", async () => {
    const { lock, clock, run } = oneRedis();
    expect(await clock.until(lock.withLock("job", { maxHoldMs: 5_000 }, () => lasting(clock, 4_999)))).toBeUndefined();
    expect(await run("EXISTS", key)).toBe(0);
  });

  test("is no bound by default: a task of a day is renewed all day", async () => {
    const { lock, clock, events } = oneRedis({ leaseMs: 60_000 });
    await clock.until(
      lock.withLock("job", () => lasting(clock, 86_400_000)),
      90_000_000,
    );
    expect(events.filter(({ type }) => type === "lost")).toEqual([]);
  });
});

describe("a holder of ten leases", () => {
  test("is reported once", async () => {
    const { lock, clock, events } = oneRedis({ leaseMs: 1_000 });
    let fence = 0;
    const running = lock.withLock("job", async (lease) => {
      fence = lease.fence;
      await lasting(clock, 60_000);
    });
    await clock.advance(9_999);
    expect(events.filter(({ type }) => type === "held-long")).toEqual([]);
    await clock.until(running);
    const reports = events.filter(({ type }) => type === "held-long");
    const nodes = [{ label: "node 1", outcome: "extended" }]; // what it answered last
    expect(reports).toMatchObject([{ name: "job", fence, durationMs: 10_000, requests: 0, nodes }]);
  });

  test("is not reported after it has let go", async () => {
    const { lock, clock, events } = oneRedis({ leaseMs: 1_000 });
    await clock.until(lock.withLock("job", () => lasting(clock, 9_000)));
    await clock.advance(10_000);
    expect(events.filter(({ type }) => type === "held-long")).toEqual([]);
  });
});

describe("withLock() with the caller's signal", () => {
  const reason = new Error("enough");

  test("an abort while waiting rejects aborted, and the task never runs", async () => {
    const { lock, other, clock } = oneRedis();
    await other.acquire("job");
    const { controller } = countingSignal();
    const waiting = lock.withLock("job", { signal: controller.signal }, () => expect.fail("ran"));
    await clock.advance(100);
    controller.abort(reason);
    expect((await lockError(waiting, "aborted")).cause).toBe(reason);
  });

  test("an abort during the task aborts the lease's signal with the caller's reason; the lease is kept until the task ends", async () => {
    const { lock, clock, run, events } = oneRedis({ leaseMs: 1_000 });
    const { controller } = countingSignal();
    let lease: Lease | undefined;
    const running = lock.withLock("job", { signal: controller.signal }, async (held) => {
      lease = held;
      await lasting(clock, 10_000);
      return held.remaining();
    });
    await clock.advance(100);
    controller.abort(reason);
    expect(lease?.signal.reason).toBe(reason);
    expect(lease?.remaining()).toBeGreaterThan(0);
    expect(await clock.until(running)).toBeGreaterThan(0);
    expect(await run("EXISTS", key)).toBe(0);
    expect(events.filter(({ type }) => type === "lost")).toEqual([]);
  });

  test("a task that stops by it rejects with the reason itself, and the release goes out", async () => {
    const { lock, clock, verbs } = oneRedis();
    const { controller } = countingSignal();
    const running = lock.withLock("job", { signal: controller.signal }, async ({ signal }) => {
      await new Promise((_, reject) => signal.addEventListener("abort", () => reject(signal.reason)));
    });
    await clock.advance(100);
    controller.abort(reason);
    await expect(running).rejects.toBe(reason);
    expect(verbs()).toEqual(["acquire", "release"]);
  });

  test("an abort that comes with the grant is seen by the task", async () => {
    const { controller } = countingSignal();
    const observe = (): void => controller.abort(reason);
    const { lock } = oneRedis({ observe });
    const seen = await lock.withLock("job", { signal: controller.signal }, ({ signal }) => signal.reason);
    expect(seen).toBe(reason);
  });

  test("an abort after the task has released by itself does not reach the lease's signal", async () => {
    const { lock } = oneRedis();
    const { controller } = countingSignal();
    const aborted = await lock.withLock("job", { signal: controller.signal }, async (lease) => {
      await lease.release();
      controller.abort(reason);
      return lease.signal.aborted;
    });
    expect(aborted).toBe(false);
  });

  test("an abort after the end does nothing", async () => {
    const { lock } = oneRedis();
    const { controller } = countingSignal();
    const lease = await lock.withLock("job", { signal: controller.signal }, (held) => held);
    controller.abort(reason);
    expect(lease.signal.aborted).toBe(false);
  });
});
