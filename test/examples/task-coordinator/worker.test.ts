import type { CommandClient } from "leasehold";
import { describe, expect, test } from "vitest";
import { backoffMs } from "../../../examples/task-coordinator/backoff.ts";
import { openQueue } from "../../../examples/task-coordinator/queue.ts";
import { type Handler, runNext, work } from "../../../examples/task-coordinator/worker.ts";
import { describeRedis } from "../../support/redis.ts";
import { age, endLease, fieldOf, lockTask, passDelays, type Transport, totalsOf, useLab } from "./lab.ts";

const echo: Handler = ({ payload }) => payload;

describeRedis("a worker, on a real Redis", () => {
  const lab = useLab();

  test.each<Transport>(["TCP", "HTTP"])(
    "over %s takes one task after the other, and says when there is none",
    async (transport) => {
      const queue = lab.queue(transport);
      await queue.enqueue({ rows: 1 }, { id: "a" });
      expect(await runNext(queue, { worker: "w", handler: echo })).toBe("completed");
      expect(await runNext(queue, { worker: "w", handler: echo })).toBe("idle");
      expect(await fieldOf(queue, "a", "result")).toBe('{"rows":1}');
      expect(await lab.redis.exists(queue.keys.taskLock("a"))).toBe(0);
    },
  );

  test("leaves a task to whoever holds its lock", async () => {
    const queue = lab.queue();
    await queue.enqueue(1, { id: "a" });
    await lockTask(queue, "a");
    expect(await runNext(queue, { worker: "w", handler: () => expect.fail("it ran") })).toBe("elsewhere");
  });

  test("reports what the handler throws, shortened, and tries again after a pause that grows", async () => {
    const queue = lab.queue();
    await queue.enqueue(1, { id: "a", maxAttempts: 2 });
    const handler: Handler = () => {
      throw new Error("x".repeat(600));
    };
    const settings = { worker: "w", handler, backoff: { firstMs: 60_000 } };
    expect(await runNext(queue, settings)).toBe("retrying");
    expect(await runNext(queue, settings)).toBe("idle");
    await passDelays(queue);
    expect(await runNext(queue, settings)).toBe("failed");
    expect(await fieldOf(queue, "a", "error")).toHaveLength(500);
  });

  test("fails an attempt whose result cannot be stored", async () => {
    const queue = lab.queue();
    await queue.enqueue(1, { id: "a" });
    expect(await runNext(queue, { worker: "w", handler: () => 1n as never })).toBe("retrying");
    expect(await fieldOf(queue, "a", "error")).toContain("BigInt");
  });

  test("shows progress, and aborts the task's signal when that is refused", async () => {
    const queue = lab.queue();
    await queue.enqueue(1, { id: "a" });
    const told: string[] = [];
    const handler: Handler = async (_, { progress, signal }) => {
      await progress(33.4, "a third");
      expect(await fieldOf(queue, "a", "percent")).toBe("33");
      expect(signal.aborted).toBe(false);
      await endLease(queue, "a");
      await progress(50);
      expect(signal.reason).toMatchObject({ message: 'Cannot go on with "a" as it is another worker\'s now' });
      return "a late result";
    };
    expect(await runNext(queue, { worker: "w", handler, tell: (line) => told.push(line) })).toBe("refused");
    expect(told).toEqual(["a: the lease had ended, so the report was refused"]);
    expect(await fieldOf(queue, "a", "result")).toBeNull();
    expect(await totalsOf(queue)).toMatchObject({ refused: 2 });
  });

  test("renews the lock while the task runs, and writes each renewal down", async () => {
    const queue = lab.queue();
    await queue.enqueue(1, { id: "a" });
    const handler: Handler = async () => {
      await lab.redis.hset(queue.keys.task("a"), "renewedAt", 0);
      await expect.poll(() => lab.redis.hget(queue.keys.task("a"), "renewedAt"), { timeout: 10_000 }).not.toBe("0");
      return "done";
    };
    expect(await runNext(queue, { worker: "w", handler, leaseMs: 2_000 })).toBe("completed");
  });

  test("hands a task on that takes longer than it may", async () => {
    const queue = lab.queue();
    await queue.enqueue(1, { id: "a" });
    let signal: AbortSignal | undefined;
    const handler: Handler = (_, context) => {
      signal = context.signal;
      return new Promise(() => {});
    };
    expect(await runNext(queue, { worker: "w", handler, leaseMs: 1_000, maxRunMs: 50 })).toBe("unknown");
    expect(signal?.reason).toMatchObject({ code: "lost", lostBy: "maxHold" });
  });

  /** The replies to these, and only to these, are lost: what was asked for has happened. */
  function losing(...scripts: string[]): CommandClient {
    const client = lab.client();
    const lost = [...scripts];
    return {
      ...client,
      async execute(command, options) {
        const reply = await client.execute(command, options);
        const at = lost.findIndex((script) => String(command[1]).includes(script));
        if (at < 0) return reply;
        lost.splice(at, 1);
        throw new Error("ECONNRESET");
      },
    };
  }

  test("repeats a start and a report whose answers were lost, and counts each once", async () => {
    const queue = openQueue(losing("'attempts', 1)", "'completed', 1)"), "jobs");
    await queue.enqueue(1, { id: "a" });
    expect(await runNext(queue, { worker: "w", handler: echo })).toBe("completed");
    expect(await totalsOf(queue)).toEqual({ enqueued: 1, attempts: 1, completed: 1 });
  });

  test("a claim whose reply was lost is put back, and done by the next", async () => {
    const queue = openQueue(losing("'LMOVE'"), "jobs");
    await queue.enqueue(1, { id: "a" });
    await expect(runNext(queue, { worker: "w", handler: echo })).rejects.toThrow("ECONNRESET");
    expect(await runNext(queue, { worker: "w", handler: echo })).toBe("idle");
    await queue.recover("a");
    await age(queue, "a", "seenAt", 10_001);
    expect(await queue.recover("a")).toBe("never-started");
    expect(await runNext(queue, { worker: "w", handler: echo })).toBe("completed");
  });

  test("works until it is told to stop, finishes what it has, and outlasts an outage", async () => {
    const client = lab.client();
    const stopping = new AbortController();
    const told: string[] = [];
    let down = true;
    const flaky: CommandClient = {
      execute: (command, options) =>
        down ? Promise.reject(new Error("ECONNREFUSED")) : client.execute(command, options),
    };
    const queue = openQueue(flaky, "jobs");
    await lab.queue().enqueue(1, { id: "a" });
    await lab.queue().enqueue(1, { id: "b" });
    const handler: Handler = () => {
      stopping.abort();
      return "done";
    };
    const tell = (line: string): void => {
      told.push(line);
      down = false;
    };
    await work(queue, { worker: "w", handler, signal: stopping.signal, pollMs: 1, tell });
    expect(told).toEqual(["Redis cannot be had: Error: ECONNREFUSED"]);
    expect([await fieldOf(queue, "a", "state"), await fieldOf(queue, "b", "state")]).toEqual(["completed", "pending"]);
  });

  test("refuses a name that the page could not show", async () => {
    await expect(runNext(lab.queue(), { worker: "a b", handler: echo })).rejects.toThrow("Cannot use worker");
  });
});

describe("backoffMs()", () => {
  test("doubles from attempt to attempt, between half of it and all of it, up to its bound", () => {
    const of = (attempt: number, chance: number): number =>
      backoffMs(attempt, { firstMs: 100, longestMs: 1_000 }, chance);
    expect([1, 2, 3, 4, 5, 9_999].map((attempt) => of(attempt, 1))).toEqual([100, 200, 400, 800, 1_000, 1_000]);
    expect([1, 2, 3].map((attempt) => of(attempt, 0))).toEqual([50, 100, 200]);
    expect(backoffMs(1, {}, 1)).toBe(1_000);
    expect(backoffMs(60, {}, 1)).toBe(300_000);
  });
});
