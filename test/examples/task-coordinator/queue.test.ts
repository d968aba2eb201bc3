import { readdirSync } from "node:fs";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { memoryClient } from "../../../adapters/memory/index.ts";
import { queueKeys, sweeperLockName, taskLockName } from "../../../examples/task-coordinator/keys.ts";
import { openQueue, type Queue } from "../../../examples/task-coordinator/queue.ts";
import { startRun } from "../../../examples/task-coordinator/run.ts";
import { slotOf } from "../../scripts/slot.ts";
import { describeRedis } from "../../support/redis.ts";
import {
  age,
  begin,
  endLease,
  fieldOf,
  leaseMs,
  lockTask,
  passDelays,
  placesOf,
  type Transport,
  totalsOf,
  useLab,
} from "./lab.ts";

describeRedis("the queue, on a real Redis", () => {
  const lab = useLab();

  describe.each<Transport>(["TCP", "HTTP", "@upstash/redis"])("over %s", (transport) => {
    let queue: Queue;
    let eyes: Queue; // what is looked at and set right must not depend on how a client reads values
    beforeEach(() => {
      queue = lab.queue(transport);
      eyes = lab.queue("TCP");
    });
    afterEach(async () => {
      // Whatever a test did: each unfinished task stands in one list, and what runs has been claimed.
      const ids = (await lab.redis.keys("queue:{jobs}:task:*")).map((key) => key.split(":task:")[1] ?? "");
      for (const id of ids) {
        const state = await fieldOf(eyes, id, "state");
        const places = await placesOf(eyes, id);
        expect(places, `${state} task`).toHaveLength(1);
        if (state === "running") expect(places).toEqual(["claimed"]);
        if (state === "completed" || state === "failed") expect(places).toEqual([state]);
      }
    });

    test("gives tasks out by priority, then in the order in which they came", async () => {
      for (const [id, priority] of [
        ["a", "low"],
        ["b", "normal"],
        ["c", "high"],
        ["d", "normal"],
      ] as const) {
        await queue.enqueue({ id }, { id, priority });
      }
      const taken = [await queue.claim(), await queue.claim(), await queue.claim(), await queue.claim()];
      expect(taken).toEqual(["c", "b", "d", "a"]);
      expect(await queue.claim()).toBeNull();
    });

    test("holds a delayed task back until it is due by the clock of Redis, and then puts it in its line", async () => {
      await queue.enqueue(1, { id: "later", delayMs: 60_000, priority: "high" });
      await queue.enqueue(1, { id: "now" });
      expect(await queue.claim()).toBe("now");
      expect(await queue.claim()).toBeNull();
      await passDelays(eyes);
      expect(await queue.claim()).toBe("later");
    });

    test("creates a task of one id once, whatever has become of it", async () => {
      const enqueue = () => queue.enqueue({ amount: 1 }, { id: "order-42" });
      expect(await enqueue()).toEqual({ id: "order-42", created: true });
      expect(await enqueue()).toEqual({ id: "order-42", created: false });
      const { run } = await begin(queue);
      expect(await enqueue()).toEqual({ id: "order-42", created: false });
      expect(await run.complete("done", leaseMs)).toBe(true);
      expect(await enqueue()).toEqual({ id: "order-42", created: false });
      expect(await queue.claim()).toBeNull();
      expect(await totalsOf(eyes)).toMatchObject({ enqueued: 1, completed: 1 });
    });

    test("refuses another payload under an id that is taken", async () => {
      await queue.enqueue({ amount: 1 }, { id: "order-42" });
      await expect(queue.enqueue({ amount: 2 }, { id: "order-42" })).rejects.toThrow(
        'Cannot enqueue "order-42" as a task of that id has another payload',
      );
    });

    test("starts a task for the holder of its lock alone", async () => {
      await queue.enqueue(1, { id: "a" });
      await queue.claim();
      const lease = await lockTask(queue, "a");
      const settings = { leaseMs, worker: "w" };
      const forged = { token: `x${lease.token.slice(1)}`, fence: lease.fence };
      expect(await startRun(queue, "a", forged, settings)).toBeNull();
      expect(await startRun(queue, "a", lease, settings)).toMatchObject({ task: { attempt: 1 }, fence: lease.fence });
      // The reply was lost, and the request came again.
      expect(await startRun(queue, "a", lease, settings)).toMatchObject({ task: { attempt: 1 } });
      expect(await totalsOf(eyes)).toMatchObject({ attempts: 1 });
    });

    test("starts nothing that has not been claimed, or that is done", async () => {
      await queue.enqueue(1, { id: "a" });
      const early = await lockTask(queue, "a");
      expect(await startRun(queue, "a", early, { leaseMs, worker: "w" })).toBeNull();
      await early.release();
      const { run, lease } = await begin(queue);
      await run.complete(null, leaseMs);
      await lease.release();
      const late = await lockTask(queue, "a");
      expect(await startRun(queue, "a", late, { leaseMs, worker: "w" })).toBeNull();
    });

    test("takes a completion once, and says so again to a late copy of it", async () => {
      await queue.enqueue({ deep: ["ü", "{}", 1.5, null] }, { id: "a" });
      const { run, lease } = await begin(queue);
      expect(run.task).toEqual({ id: "a", payload: { deep: ["ü", "{}", 1.5, null] }, attempt: 1, maxAttempts: 5 });
      expect(await run.complete({ rows: 42 }, leaseMs)).toBe(true);
      await lease.release();
      expect(await run.complete({ rows: 43 }, leaseMs)).toBe(true);
      expect(await run.fail("after all", 0)).toBe("refused");
      expect(await fieldOf(eyes, "a", "result")).toBe('{"rows":42}');
      expect(await totalsOf(eyes)).toEqual({ enqueued: 1, attempts: 1, completed: 1 });
      expect(await lab.redis.pttl(queue.keys.task("a"))).toBeGreaterThan(0);
    });

    test("refuses every report of a lease that has ended, though nobody has taken over yet", async () => {
      await queue.enqueue(1, { id: "a" });
      const { run } = await begin(queue);
      expect(await run.progress(10, "going")).toBe(true);
      await endLease(eyes, "a");
      expect(await run.progress(20)).toBe(false);
      expect(await run.complete("late", leaseMs)).toBe(false);
      expect(await run.fail("late", 0)).toBe("refused");
      expect(await fieldOf(eyes, "a", "percent")).toBe("10");
      expect(await totalsOf(eyes)).toMatchObject({ refused: 3 });
    });

    test("refuses every report of an earlier attempt, under way or done, and keeps what the later one says", async () => {
      await queue.enqueue(1, { id: "a" });
      const first = await begin(queue, "same-worker");
      await endLease(eyes, "a");
      expect(await queue.recover("a")).toBe("lease-ended");
      const second = await begin(queue, "same-worker");
      expect(second.run.fence).toBeGreaterThan(first.run.fence);
      expect(await first.run.complete("first", leaseMs)).toBe(false);
      expect(await second.run.complete("second", leaseMs)).toBe(true);
      expect(await first.run.complete("first", leaseMs)).toBe(false);
      expect(await first.run.fail("first", 0)).toBe("refused");
      expect(await fieldOf(eyes, "a", "result")).toBe('"second"');
    });

    test("waits after a failure, tries again, and puts what fails for the last time aside", async () => {
      await queue.enqueue(1, { id: "a", maxAttempts: 2, priority: "low" });
      const first = await begin(queue);
      expect(await first.run.fail("no luck", 60_000)).toBe("retrying");
      await first.lease.release();
      expect(await placesOf(eyes, "a")).toEqual(["delayed"]);
      expect(await first.run.fail("no luck", 60_000)).toBe("retrying"); // a late copy
      await passDelays(eyes);
      const second = await begin(queue);
      expect(second.run.task.attempt).toBe(2);
      expect(await first.run.fail("no luck", 60_000)).toBe("retrying"); // a later copy still
      expect(await placesOf(eyes, "a")).toEqual(["claimed"]);
      expect(await second.run.fail("again", 60_000)).toBe("failed");
      await second.lease.release();
      expect(await second.run.fail("again", 60_000)).toBe("failed");
      expect(await second.run.complete("after all", leaseMs)).toBe(false);
      expect(await fieldOf(eyes, "a", "error")).toBe("again");
      expect(await totalsOf(eyes)).toMatchObject({ retried: 1, failed: 1, attempts: 2 });
    });

    test("puts a failed task back in line, with all its attempts, once", async () => {
      await queue.enqueue(1, { id: "a", maxAttempts: 1 });
      const { run, lease } = await begin(queue);
      expect(await queue.retry("a")).toBe(false);
      await run.fail("no luck", 0);
      await lease.release();
      expect(await queue.retry("a")).toBe(true);
      expect(await queue.retry("a")).toBe(false);
      expect((await begin(queue)).run.task).toMatchObject({ attempt: 1, maxAttempts: 1 });
    });

    test("forgets a failed task when it is told to, and then its id is free", async () => {
      await queue.enqueue(1, { id: "a", maxAttempts: 1 });
      expect(await queue.discard("a")).toBe(false);
      await (await begin(queue)).run.fail("no luck", 0);
      expect(await queue.discard("a")).toBe(true);
      expect(await queue.discard("a")).toBe(false);
      expect((await queue.enqueue(2, { id: "a" })).created).toBe(true);
    });

    test("puts back what was claimed and never started, as when the worker dies before it has the lock", async () => {
      await queue.enqueue(1, { id: "a" });
      await queue.claim();
      expect(await queue.recover("a")).toBe("well"); // the first look, from which on time counts
      expect(await queue.recover("a")).toBe("well");
      await age(eyes, "a", "seenAt", 10_001);
      expect(await queue.recover("a")).toBe("never-started");
      expect(await queue.recover("a")).toBe("moved");
      expect(await queue.claim()).toBe("a");
      expect(await queue.recover("a")).toBe("well"); // and counts anew
    });

    test("leaves alone a claimed task whose lock is held but that has not been started yet", async () => {
      await queue.enqueue(1, { id: "a" });
      await queue.claim();
      const lease = await lockTask(queue, "a");
      await queue.recover("a");
      await age(eyes, "a", "seenAt", 60_000);
      expect(await queue.recover("a")).toBe("well");
      await age(eyes, "a", "seenAt", 600_000);
      expect(await queue.recover("a")).toBe("silent");
      expect(await startRun(queue, "a", lease, { leaseMs, worker: "w" })).toBeNull();
    });

    test("puts back a task whose lease has ended, at the head of its line", async () => {
      await queue.enqueue(1, { id: "a" });
      await queue.enqueue(1, { id: "b" });
      await begin(queue, "w-1");
      expect(await queue.recover("a")).toBe("well");
      await endLease(eyes, "a");
      expect(await queue.recover("a")).toBe("lease-ended");
      expect(await lab.redis.lindex(queue.keys.incidents, 0)).toMatch(/^\d{13} a lease-ended w-1$/);
      expect(await queue.claim()).toBe("a");
    });

    test("breaks a lock that was held for twice its lease without a renewal, as it should have ended by itself", async () => {
      await queue.enqueue(1, { id: "a" });
      const { run, lease } = await begin(queue);
      await lab.redis.persist(lease.key); // such as by hand, or by a dump that was restored
      await age(eyes, "a", "renewedAt", 2 * leaseMs - 1_000);
      expect(await queue.recover("a")).toBe("well");
      await age(eyes, "a", "renewedAt", 2_000);
      expect(await queue.recover("a")).toBe("overheld");
      expect(await lab.redis.exists(lease.key)).toBe(0);
      expect(await run.complete("late", leaseMs)).toBe(false);
    });

    test("breaks a long lease that was not renewed for 10 minutes", async () => {
      await queue.enqueue(1, { id: "a" });
      await queue.claim();
      const lease = await lockTask(queue, "a");
      await startRun(queue, "a", lease, { leaseMs: 3_600_000, worker: "w" });
      await age(eyes, "a", "renewedAt", 599_000);
      expect(await queue.recover("a")).toBe("well");
      await age(eyes, "a", "renewedAt", 2_000);
      expect(await queue.recover("a")).toBe("silent");
    });

    test("does not count a renewed task as silent, however long it runs", async () => {
      await queue.enqueue(1, { id: "a" });
      const { run } = await begin(queue);
      await age(eyes, "a", "renewedAt", 900_000);
      expect(await run.progress()).toBe(true);
      expect(await queue.recover("a")).toBe("well");
    });

    test("takes a running task back when it is told to", async () => {
      await queue.enqueue(1, { id: "a" });
      const { run } = await begin(queue);
      expect(await queue.recover("a", { force: true })).toBe("taken-back");
      expect(await run.complete("late", leaseMs)).toBe(false);
      expect((await begin(queue)).run.task.attempt).toBe(2);
    });

    test("puts a task aside that has cost its last attempt a worker too", async () => {
      await queue.enqueue(1, { id: "poison", maxAttempts: 2 });
      for (const last of [false, true]) {
        await begin(queue);
        await endLease(eyes, "poison");
        expect(await queue.recover("poison")).toBe("lease-ended");
        expect(await placesOf(eyes, "poison")).toEqual([last ? "failed" : "ready"]);
      }
      expect(await fieldOf(eyes, "poison", "error")).toBe("lease-ended");
    });

    test("starts no attempt under a fence that is below an earlier one", async () => {
      await queue.enqueue(1, { id: "a" });
      const { lease, run } = await begin(queue);
      await run.fail("no luck", 0);
      await passDelays(eyes);
      await queue.claim();
      const { token, fence } = lease;
      expect(await startRun(queue, "a", { token, fence: fence - 1 }, { leaseMs, worker: "w" })).toBeNull();
      expect(await startRun(queue, "a", { token, fence }, { leaseMs, worker: "w" })).toBeNull();
    });

    test("drops an id whose task is gone, as after an eviction", async () => {
      await queue.enqueue(1, { id: "a" });
      await queue.claim();
      await lab.redis.del(queue.keys.task("a"));
      expect(await queue.recover("a")).toBe("moved");
      expect(await lab.redis.llen(queue.keys.claimed)).toBe(0);
    });
  });
});

describe("names", () => {
  const queue = openQueue(memoryClient(), "jobs");

  test.each([
    ["", "id"],
    ["a b", "id"],
    ["{x}", "id"],
    ["x:fence", "id"],
    ["..", "id"],
    ["x".repeat(129), "id"],
  ])("the id %j is refused", async (id, what) => {
    await expect(queue.enqueue(1, { id })).rejects.toThrow(`Cannot use ${what} as it must be 1 to 128 letters`);
  });

  test("what else is out of bounds is refused, by its name and with its value", async () => {
    await expect(queue.enqueue(1, { delayMs: -1 })).rejects.toThrow("Cannot use delayMs as it must be a whole number");
    await expect(queue.enqueue(1, { maxAttempts: 0 })).rejects.toThrow("from 1: current value is 0");
    await expect(queue.enqueue(1, { priority: "urgent" as "high" })).rejects.toThrow("high, normal, low");
    await expect(queue.enqueue(undefined as never)).rejects.toThrow("Cannot use payload");
    expect(() => openQueue(memoryClient(), "a b")).toThrow("Cannot use queue");
  });

  test("all keys of a queue share one slot with its locks, and the locks are where the package puts them", async () => {
    const { task, taskLock, ready, ...others } = queueKeys("jobs");
    const keys = [task("a"), taskLock("a"), ...ready, ...Object.values(others)].map(String);
    expect(new Set(keys.map(slotOf))).toEqual(new Set([slotOf("{jobs}")]));
    const { createLock } = await import("leasehold");
    const lock = createLock(memoryClient());
    expect((await lock.acquire(taskLockName("jobs", "a"))).key).toBe(taskLock("a"));
    expect((await lock.acquire(sweeperLockName("jobs"))).key).toBe("lock:{jobs}:sweeper");
  });

  test("every script touches only what is in KEYS", async () => {
    const folder = new URL("../../../examples/task-coordinator/scripts/", import.meta.url);
    for (const file of readdirSync(folder)) {
      for (const [name, script] of Object.entries(await import(new URL(file, folder).href))) {
        const calls = String(script).match(/redis\.p?call\(.*/g) ?? [];
        const stray = calls.filter(
          (call) => !/^redis\.p?call\(('TIME'|('\w+'|delayed and .*?), \(?(last and )?KEYS\[)/.test(call),
        );
        expect(stray, name).toEqual([]);
      }
    }
  });
});
