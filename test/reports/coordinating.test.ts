/**
 * Public reports on job queues, schedulers and leader election. Each test is named by the id of its report.
 */
import { describe, expect, test } from "vitest";
import type { LockEvent } from "../../src/events.ts";
import type { Lease } from "../../src/lease.ts";
import { begin, endLease, fieldOf, leaseMs, totalsOf, useLab } from "../examples/task-coordinator/lab.ts";
import { oneRedis } from "../support/one-redis.ts";
import { describeRedis } from "../support/redis.ts";
import { lockError } from "../support/rejection.ts";
import { lasting, settle } from "../support/virtual-clock.ts";

test("N02 a task ten times as long as its lease overlaps with no other over 20 triggers, and those in between are skipped", async () => {
  const { lock, clock } = oneRedis({ leaseMs: 1_000 });
  let running = 0;
  let most = 0;
  const task = async (): Promise<void> => {
    running += 1;
    most = Math.max(most, running);
    await lasting(clock, 10_000);
    running -= 1;
  };
  const triggers: Promise<{ readonly ran: boolean }>[] = [];
  for (let trigger = 0; trigger < 20; trigger += 1) {
    triggers.push(lock.tryWithLock("nightly", task));
    await clock.advance(4_000);
  }
  const outcomes = await clock.until(Promise.all(triggers)); // a skipped trigger is no error: none rejects
  expect(most).toBe(1);
  // A task of 10 s, and a trigger every 4 s: of three triggers the first runs.
  expect(outcomes.map(({ ran }) => ran)).toEqual(Array.from({ length: 20 }, (_, trigger) => trigger % 3 === 0));
  expect(outcomes[1]).toEqual({ ran: false, retryAfterMs: expect.any(Number) });
});

describeRedis("N03 on a real Redis", () => {
  const lab = useLab();

  test.each(["TCP", "HTTP"] as const)(
    "N03 over %s a worker that stalls past its lease cannot complete what another has completed",
    async (transport) => {
      const queue = lab.queue(transport);
      await queue.enqueue(1, { id: "job" });
      const a = await begin(queue, "worker-a");
      await endLease(queue, "job");
      expect(await queue.recover("job")).toBe("lease-ended");
      const b = await begin(queue, "worker-b");
      expect(await a.run.complete("A's", leaseMs)).toBe(false);
      expect(await b.run.complete("B's", leaseMs)).toBe(true);
      expect(await a.run.complete("A's", leaseMs)).toBe(false);
      expect(await a.run.fail("A's", 0)).toBe("refused");
      await lockError(a.lease.extend(), "lost");
      expect(await fieldOf(queue, "job", "result")).toBe('"B\'s"');
      expect(await totalsOf(queue)).toEqual({ enqueued: 1, attempts: 2, recovered: 1, completed: 1, refused: 3 });
    },
  );

  test("N03 a worker is told apart from itself: it is the attempt that reports, not the worker", async () => {
    const queue = lab.queue();
    await queue.enqueue(1, { id: "job" });
    const first = await begin(queue, "same");
    await endLease(queue, "job");
    await queue.recover("job");
    const second = await begin(queue, "same");
    expect(second.lease.token).not.toBe(first.lease.token);
    expect(await first.run.complete("first", leaseMs)).toBe(false);
    expect(await first.run.progress(99)).toBe(false);
    expect(await second.run.complete("second", leaseMs)).toBe(true);
  });
});

describe("N04 a leader", () => {
  /** Leads for as long as it may, and notes when it began and when it stopped. */
  function leader(world: ReturnType<typeof oneRedis>, lock = world.lock) {
    const { clock } = world;
    const acts: [from: number, to: number][] = [];
    const stepDown = new AbortController();
    const led = lock
      .withLock("leader", { waitMs: 60_000, signal: stepDown.signal }, async (lease: Lease) => {
        const act: [number, number] = [clock.monotonic, Number.POSITIVE_INFINITY];
        acts.push(act);
        await new Promise((resolve) => lease.signal.addEventListener("abort", resolve));
        act[1] = clock.monotonic;
      })
      .catch(() => {});
    return { acts, led, stepDown };
  }
  const lost = (events: readonly { readonly type: string }[]): LockEvent[] =>
    events.filter((event): event is LockEvent & { type: "lost" } => event.type === "lost");

  test("N04 that is cut off from Redis stops no later than its own deadline, and the next begins no earlier than that of the key", async () => {
    let cut = false;
    const world = oneRedis({ leaseMs: 3_000 }, () => (cut ? { lose: "request" } : undefined));
    const { clock, other, events } = world;
    const first = leader(world);
    await clock.advance(10_000); // renewed several times by now
    const next = leader(world, other);
    await settle();
    cut = true;
    const cutAt = clock.monotonic;
    const keyEnds = cutAt + Number(await world.run("PTTL", "lock:{leader}"));
    await clock.advance(10_000);
    const [[, stopped] = []] = first.acts;
    const [[began] = []] = next.acts;
    expect(stopped).toBeLessThanOrEqual(keyEnds);
    expect(began).toBeGreaterThanOrEqual(keyEnds);
    expect(lost(events)).toMatchObject([{ by: "expired" }]); // one step-down, told once
    next.stepDown.abort();
    await clock.until(Promise.all([first.led, next.led]));
    expect(lost(events)).toHaveLength(1);
  });

  test("N04 that never was one tells of no step-down", async () => {
    const world = oneRedis({ waitMs: 100 });
    const held = await world.other.acquire("leader", { leaseMs: 60_000 });
    await world.clock.until(world.lock.withLock("leader", () => {}).catch(() => {}));
    expect(lost(world.events)).toEqual([]);
    await held.release();
  });

  test("N04 that is shut down hands over at once, and tells of no loss", async () => {
    const world = oneRedis({ leaseMs: 30_000 });
    const { clock, other, events } = world;
    const first = leader(world);
    await settle();
    const next = leader(world, other);
    await clock.advance(1_000);
    const shutDownAt = clock.monotonic;
    first.stepDown.abort();
    await clock.until(first.led);
    await clock.advance(2_000); // the longest pause between two tries of one that waits
    const [[began] = []] = next.acts;
    expect(began).toBeLessThanOrEqual(shutDownAt + 2_000);
    expect(lost(events)).toEqual([]);
    next.stepDown.abort();
    await clock.until(next.led);
  });
});
