/** The sweeper and the schedules: what one of many does, once. */
import { describe, expect, test } from "vitest";
import { fire, keepFiring, type Schedule, slotOf } from "../../../examples/task-coordinator/schedule.ts";
import { readState } from "../../../examples/task-coordinator/state.ts";
import { keepSweeping, sweep } from "../../../examples/task-coordinator/sweeper.ts";
import { describeRedis } from "../../support/redis.ts";
import { age, begin, endLease, fieldOf, leaseMs, type Transport, totalsOf, useLab } from "./lab.ts";

describeRedis("the sweeper, on a real Redis", () => {
  const lab = useLab();
  const everyMs = 60_000;

  test("of many that are asked to sweep at once, one does", async () => {
    const queue = lab.queue();
    await queue.enqueue(1, { id: "a" });
    await begin(queue);
    await endLease(queue, "a");
    const sweeps = await Promise.all(Array.from({ length: 5 }, () => sweep(queue, { everyMs })));
    expect(sweeps.filter((recovered) => recovered !== null)).toEqual([[{ id: "a", why: "lease-ended" }]]);
  });

  test("puts back each task that nobody is at work on, leaves the others, and says so", async () => {
    const queue = lab.queue("HTTP");
    for (const id of ["dead", "hung", "well", "stray"]) await queue.enqueue(1, { id });
    await begin(queue, "w-1");
    const { lease } = await begin(queue, "w-2");
    await begin(queue, "w-3");
    await queue.claim();
    await endLease(queue, "dead");
    await lab.redis.persist(lease.key);
    await age(queue, "hung", "renewedAt", 3 * leaseMs);
    const told: string[] = [];
    const settings = { everyMs, tell: (line: string) => void told.push(line) };
    expect(await sweep(queue, settings)).toHaveLength(2);
    expect(told).toEqual(["dead was put back: lease-ended", "hung was put back: overheld"]);
    await age(queue, "stray", "seenAt", 10_001);
    await lab.redis.del("lock:{jobs}:sweeper");
    expect(await sweep(queue, settings)).toEqual([{ id: "stray", why: "never-started" }]);
    const { incidents } = await readState(queue);
    expect(incidents.map(({ id, why, worker }) => [id, why, worker])).toEqual([
      ["stray", "never-started", "-"],
      ["hung", "overheld", "w-2"],
      ["dead", "lease-ended", "w-1"],
    ]);
  });

  test.each<Transport>(["TCP", "HTTP", "@upstash/redis"])(
    "over %s takes no id for a number or the like",
    async (transport) => {
      const queue = lab.queue(transport);
      const ids = ["42", "1e5", "true", "null", "0007"];
      for (const id of ids) {
        await queue.enqueue({ id }, { id, maxAttempts: 1 });
        await begin(queue);
        await endLease(queue, id);
      }
      expect(await sweep(queue, { everyMs })).toEqual(ids.map((id) => ({ id, why: "lease-ended" })));
      expect((await readState(queue)).failed.map(({ id }) => id)).toEqual([...ids].reverse());
    },
  );

  test("keeps its lock for as long as a sweep takes", async () => {
    const queue = lab.queue();
    const ids = ["a", "b", "c", "d", "e"];
    for (const id of ids) {
      await queue.enqueue(1, { id });
      await queue.claim();
    }
    const held: number[] = [];
    const recover = async (id: string) => {
      await new Promise((resolve) => setTimeout(resolve, 400));
      held.push(await lab.redis.exists("lock:{jobs}:sweeper"));
      return queue.recover(id);
    };
    expect(await sweep({ ...queue, recover }, { everyMs: 1_500 })).toEqual([]);
    expect(held).toEqual(ids.map(() => 1));
  });

  test("goes on after an outage, until it is told to stop", async () => {
    const stopping = new AbortController();
    const broken = { ...lab.queue(), client: { execute: () => Promise.reject(new Error("ECONNREFUSED")) } };
    const told: string[] = [];
    const tell = (line: string): void => {
      told.push(line);
      if (told.length === 2) stopping.abort();
    };
    await keepSweeping(broken, { everyMs: 10, signal: stopping.signal, tell });
    expect(told).toEqual(Array(2).fill(expect.stringMatching(/^Cannot sweep: LockError: Cannot acquire/)));
  });
});

describeRedis("a schedule, on a real Redis", () => {
  const lab = useLab();
  const hourly: Schedule = { name: "report", everyMs: 3_600_000, payload: "report" };
  const serverNow = async (): Promise<number> => Number((await lab.redis.time())[0]) * 1_000;

  test("fires a slot once, whoever of three workers with clocks 300 ms apart comes first", async () => {
    const queues = [lab.queue("TCP"), lab.queue("HTTP"), lab.queue("TCP")];
    const middle = slotOf(hourly.everyMs, await serverNow()) + 300;
    const fired = await Promise.all(queues.map((queue, place) => fire(queue, hourly, middle + (place - 1) * 300)));
    expect(fired.sort()).toEqual(["fired", "past", "past"]);
    expect(await queues[0]?.claim()).toBe(`report@${middle - 300}`);
    expect(await queues[0]?.claim()).toBeNull();
  });

  test("fires two slots where the clocks lie on both sides of their border, and never an earlier one afterwards", async () => {
    const queue = lab.queue();
    const border = slotOf(hourly.everyMs, await serverNow());
    const clocks = [border + 150, border - 150, border + 450];
    const fired: string[] = [];
    for (const clock of [...clocks.slice(1), ...clocks]) fired.push(await fire(queue, hourly, clock));
    expect(fired).toEqual(["fired", "fired", "past", "past", "past"]);
    expect([await queue.claim(), await queue.claim()]).toEqual([`report@${border - 3_600_000}`, `report@${border}`]);
  });

  test("leaves out a slot that was slept through, and what is asked for again after its task was forgotten", async () => {
    const queue = lab.queue();
    const slot = slotOf(hourly.everyMs, await serverNow());
    expect(await fire(queue, hourly, slot)).toBe("fired");
    expect(await fire(queue, hourly, slot - 3_600_000)).toBe("past");
    await lab.redis.del(queue.keys.task(`report@${slot}`));
    expect(await fire(queue, hourly, slot)).toBe("past");
  });

  test("does not let a clock that is far ahead use up the slots to come", async () => {
    const queue = lab.queue();
    const now = await serverNow();
    expect(await fire(queue, hourly, now + 86_400_000)).toBe("ahead");
    expect(await fire(queue, hourly, now)).toBe("fired");
  });

  test("three workers that keep firing make one task of each slot, until they are told to stop", async () => {
    const queue = lab.queue();
    const stopping = new AbortController();
    const often: Schedule = { name: "tick", everyMs: 200, payload: 1 };
    const loops = Array.from({ length: 3 }, () => keepFiring(queue, often, { signal: stopping.signal }));
    await expect.poll(async () => (await totalsOf(queue)).enqueued ?? 0, { timeout: 5_000 }).toBeGreaterThanOrEqual(3);
    stopping.abort();
    await Promise.all(loops);
    const ids = await lab.redis.lrange(String(queue.keys.ready[1]), 0, -1);
    expect(new Set(ids).size).toBe((await totalsOf(queue)).enqueued);
    for (const id of ids) expect(Number(id.slice("tick@".length)) % 200).toBe(0);
  });

  test("begins a slot's task once, even where its worker dies: it is shown among the failed", async () => {
    const queue = lab.queue();
    await fire(queue, hourly);
    const { id } = await begin(queue);
    await endLease(queue, id);
    await queue.recover(id);
    expect(await fieldOf(queue, id, "state")).toBe("failed");
    expect(await queue.claim()).toBeNull();
  });
});

describe("slotOf()", () => {
  test("counts slots from 1970, so that all agree on them", () => {
    expect(slotOf(60_000, 1_796_000_059_999)).toBe(1_796_000_040_000);
    expect(slotOf(60_000, 0)).toBe(0);
    expect(() => slotOf(0, 1)).toThrow("Cannot use everyMs as it must be a whole number from 1: current value is 0");
  });
});
