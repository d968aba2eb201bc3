import { describe, expect, test } from "vitest";
import { ReplyError } from "../src/command.ts";
import type { LeaseholdEvent, Observer } from "../src/events.ts";
import { type OneRedis, oneRedis } from "./support/one-redis.ts";
import { lockError } from "./support/rejection.ts";
import { lasting } from "./support/virtual-clock.ts";

/** What all events have in common. */
function expectWellFormed(events: readonly LeaseholdEvent[], name: string): void {
  for (const event of events) {
    expect(event.name).toBe(name);
    expect(event.durationMs).toBeGreaterThanOrEqual(0);
    expect(Number.isSafeInteger(event.requests)).toBe(true);
    for (const { label, outcome, ms } of event.nodes) {
      expect([typeof label, typeof outcome, typeof ms]).toEqual(["string", "string", "number"]);
    }
    if ("fence" in event) expect(Number.isSafeInteger(event.fence)).toBe(true);
  }
}

/** Everything a lock can tell, told once. */
async function everything(world: OneRedis): Promise<void> {
  const { lock, other, clock, run } = world;
  await lockError(clock.until(lock.acquire("job")), "unavailable"); // rolled-back
  const holder = await other.acquire("job");
  await lockError(lock.acquire("job", { waitMs: 0 }), "contended");
  await holder.release();
  const lease = await lock.acquire("job");
  await lease.extend();
  await lockError(clock.until(lease.release()), "unavailable"); // release-failed
  await lease.release();
  await clock.until(lock.withLock("job", () => lasting(clock, 110_000))); // renewal-unknown, renewed, held-long
  const lost = await lock.acquire("job");
  await run("DEL", "lock:{job}");
  await lockError(lost.extend(), "lost");
}

const faults = {
  acquire: [{ fail: new ReplyError("OOM command not allowed") }],
  extend: [undefined, { fail: new Error("ECONNRESET") }],
  release: [undefined, { lose: "reply" }],
} as const;

describe("events", () => {
  test("tell all that happens to a lock, each with name, fence, duration, requests and nodes", async () => {
    const world = oneRedis({ waitMs: 0 }, faults);
    await everything(world);
    expectWellFormed(world.events, "job");
    expect(new Set(world.events.map(({ type }) => type))).toEqual(
      new Set([
        "acquired",
        "acquire-failed",
        "contended",
        "extended",
        "renewed",
        "renewal-unknown",
        "lost",
        "held-long",
        "released",
        "release-failed",
        "rolled-back",
      ]),
    );
  });

  test("hold no token", async () => {
    const world = oneRedis({ waitMs: 0 }, faults);
    await everything(world);
    const tokens = new Set(
      world.client.sent.flatMap((command) => command.filter((part) => /^t[0-9a-f]{32}$/.test(`${part}`))),
    );
    expect(tokens.size).toBeGreaterThan(3);
    const told = JSON.stringify(world.events);
    for (const token of tokens) expect(told).not.toContain(token);
  });

  test("of a wait count its requests and its time from the call on", async () => {
    const { lock, other, clock, events } = oneRedis({}, { always: { requestMs: 5, replyMs: 5 } });
    const holder = await other.acquire("job");
    const waiting = lock.acquire("job");
    await clock.advance(400);
    await holder.release();
    const began = clock.monotonic - 400;
    const lease = await clock.until(waiting);
    const polls = events.filter(({ type }) => type === "contended");
    expect(polls.map(({ requests }) => requests)).toEqual(polls.map((_, index) => index + 1));
    expect(events.at(-1)).toEqual({
      type: "acquired",
      name: "job",
      fence: lease.fence,
      requests: polls.length + 1,
      durationMs: clock.monotonic - began,
      remainingMs: lease.remaining(),
      nodes: [{ label: "node 1", outcome: "granted", ms: 10 }],
    });
  });

  test("of a try that was refused say what is left of the holder's lease", async () => {
    const { lock, other, events } = oneRedis();
    await other.acquire("job", { leaseMs: 5_000 });
    expect(await lock.tryAcquire("job")).toBeNull();
    expect(events.slice(0, 1)).toEqual([
      {
        type: "contended",
        name: "job",
        retryAfterMs: 5_000,
        requests: 1,
        durationMs: 0,
        nodes: [{ label: "node 1", outcome: "held", ms: 0 }],
      },
    ]);
  });
});

describe("an acquisition that fails", () => {
  test("is told once, with its code, all its requests and its time, and what each Redis said last", async () => {
    const { lock, other, clock, events } = oneRedis({}, { always: { requestMs: 5, replyMs: 5 } });
    await other.acquire("job", { leaseMs: 60_000 });
    const began = clock.monotonic;
    const { nodes } = await lockError(clock.until(lock.acquire("job", { waitMs: 400 })), "timeout");
    const polls = events.filter(({ type }) => type === "contended");
    const failed = events.filter(({ type }) => type === "acquire-failed");
    expect(failed).toHaveLength(1);
    const durationMs = clock.monotonic - began;
    expect(failed[0]).toMatchObject({ code: "timeout", name: "job", requests: polls.length, durationMs, nodes });
    expect(failed[0]).not.toHaveProperty("cause"); // which may be anything
  });

  test("is told before it is cleaned up after", async () => {
    const { lock, clock, events } = oneRedis({ waitMs: 0 }, { always: { lose: "reply" } });
    await lockError(clock.until(lock.acquire("job")), "unavailable");
    expect(events.map(({ type }) => type)).toEqual(["acquire-failed", "rolled-back"]);
    expect(events[0]).toMatchObject({ code: "unavailable", requests: 2, nodes: [{ outcome: "unknown" }] });
  });

  test("by the caller's signal is told as well", async () => {
    const { lock, events } = oneRedis();
    await lockError(lock.acquire("job", { signal: AbortSignal.abort() }), "aborted");
    expect(events).toMatchObject([{ type: "acquire-failed", code: "aborted", requests: 0, nodes: [] }]);
  });
});

describe("an observer", () => {
  test.for<[what: string, observe: Observer]>([
    [
      "throws",
      () => {
        throw new Error("observer");
      },
    ],
    ["rejects", (() => Promise.reject(new Error("observer"))) as Observer],
  ])("that %s changes nothing", async ([, observe]) => {
    const world = oneRedis({ waitMs: 0, observe }, faults);
    await everything(world);
    expect(await world.run("EXISTS", "lock:{job}")).toBe(0);
  });

  test("is told in order, before the call that caused it settles", async () => {
    const order: string[] = [];
    const { lock } = oneRedis({ observe: ({ type }) => void order.push(type) });
    await lock.withLock("job", async (lease) => {
      order.push("task");
      await lease.extend();
      order.push("task goes on");
    });
    order.push("settled");
    expect(order).toEqual(["acquired", "task", "extended", "task goes on", "released", "settled"]);
  });
});
