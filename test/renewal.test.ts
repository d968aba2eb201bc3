import { describe, expect, test } from "vitest";
import { memoryClient } from "../adapters/memory/index.ts";
import { ReplyError } from "../src/command.ts";
import { LockError } from "../src/errors.ts";
import { createLock } from "../src/lock.ts";
import { holding, type OneRedis, oneRedis, verbOf } from "./support/one-redis.ts";
import { lockError } from "./support/rejection.ts";
import { lasting, seededRandom, virtualEnvironment } from "./support/virtual-clock.ts";

const key = "lock:{job}";
const types = ({ events }: OneRedis): string[] => events.map(({ type }) => type);

/** Lets time pass until the lock has sent so many extends. */
async function extending({ clock, verbs }: OneRedis, count = 1): Promise<void> {
  while (verbs().filter((verb) => verb === "extend").length < count) await clock.advance(1);
}

describe("renewal", () => {
  test("starts after half of what is usable, or up to 10 % earlier, and keeps the lease far beyond its length", async () => {
    const sentAt: number[] = [];
    const world = oneRedis({ leaseMs: 10_000 }, (command) => {
      if (verbOf(command) === "extend") sentAt.push(world.clock.monotonic);
      return undefined;
    });
    const began = world.clock.monotonic;
    await world.clock.until(world.lock.withLock("job", () => lasting(world.clock, 100_000)));
    const pauses = sentAt.map((at, index) => at - (sentAt[index - 1] ?? began));
    for (const pause of pauses) {
      expect(pause).toBeGreaterThanOrEqual(0.9 * 4_949);
      expect(pause).toBeLessThanOrEqual(4_949);
    }
    expect(sentAt.length).toBeLessThanOrEqual(Math.ceil(100_000 / (0.9 * 4_949)));
    expect(new Set(pauses.map(Math.round)).size).toBeGreaterThan(pauses.length / 2);
    expect(types(world).filter((type) => type !== "renewed")).toEqual(["acquired", "held-long", "released"]);
  });

  test("spreads holders that began together", async () => {
    const env = virtualEnvironment();
    const redis = memoryClient({}, env);
    const renewedAt: number[] = [];
    const tasks = Array.from({ length: 20 }, (_, index) => {
      const observe = ({ type }: { type: string }): void => {
        if (type === "renewed") renewedAt.push(env.clock.monotonic);
      };
      const lock = createLock(redis, { observe }, { ...env, random: seededRandom(index + 1) });
      return lock.withLock(`job ${index}`, () => lasting(env.clock, 6_000));
    });
    await env.clock.until(Promise.all(tasks));
    expect(new Set(renewedAt.map((at) => Math.round(at / 10))).size).toBeGreaterThan(10);
  });

  test("tells of each round with what is left, and what it took", async () => {
    const world = oneRedis({ leaseMs: 10_000 }, { extend: [{ requestMs: 20, replyMs: 10 }] });
    const { lease, running } = await holding(world, 6_000);
    await world.clock.until(running);
    const nodes = [{ label: "node 1", outcome: "extended", ms: 30 }];
    expect(world.events[1]).toEqual({
      type: "renewed",
      name: "job",
      fence: lease.fence,
      remainingMs: 9_868,
      durationMs: 30,
      requests: 1,
      nodes,
    });
  });

  test("starts earlier where three attempts would not fit into the second half", async () => {
    const world = oneRedis({ leaseMs: 2_000 }, { always: { requestMs: 50, replyMs: 50 } });
    const { running } = await holding(world, 700);
    const extended = world.clock.until(running).then(() => world.verbs().filter((verb) => verb === "extend").length);
    expect(await extended).toBeGreaterThanOrEqual(1);
  });

  test("but not before a quarter of what is usable", async () => {
    const sentAt: number[] = [];
    const { lock, clock } = oneRedis({ leaseMs: 1_000 }, (command) => {
      if (verbOf(command) === "extend") sentAt.push(clock.monotonic);
      return { replyMs: 100 };
    });
    let [began, quarterMs] = [0, 0];
    await clock.until(
      lock.withLock("job", async (lease) => {
        [began, quarterMs] = [clock.monotonic, lease.remaining() / 4];
        await lasting(clock, 300);
      }),
    );
    const ms = (sentAt[0] ?? 0) - began;
    expect(ms).toBeGreaterThanOrEqual(0.9 * quarterMs);
    expect(ms).toBeLessThanOrEqual(quarterMs);
  });

  test.for([
    [300, 2_000],
    [150, 1_000],
    [20, 100],
  ] as const)(
    "does not follow one round with the next without a pause at a round trip of %i ms and a lease of %i ms",
    async ([roundTripMs, leaseMs]) => {
      const world = oneRedis({ leaseMs }, { always: { requestMs: roundTripMs / 2, replyMs: roundTripMs / 2 } });
      const { lease, running } = await holding(world, 20 * leaseMs);
      await world.clock.advance(19 * leaseMs);
      expect(lease.signal.aborted).toBe(false);
      await world.clock.until(running);
      expect(world.verbs().filter((verb) => verb === "extend").length).toBeLessThanOrEqual(4 * 20);
    },
  );

  test("a longer lease by the holder's own extend() is not shortened by it", async () => {
    const world = oneRedis({ leaseMs: 1_000 });
    const { lease, running } = await holding(world, 20_000);
    await lease.extend(60_000);
    await world.clock.advance(10_000);
    expect(lease.remaining()).toBeGreaterThan(49_000);
    await world.clock.until(running);
  });

  test("keeps no process alive, neither between two rounds nor while an answer is outstanding", async () => {
    const world = oneRedis({ leaseMs: 10_000 }, { extend: [{ lose: "request" }] });
    const { running, end } = await holding(world);
    await world.clock.advance(100);
    expect(world.clock.pending.filter(({ keepsAlive }) => keepsAlive)).toEqual([]);
    await extending(world);
    expect(world.clock.pending.filter(({ keepsAlive }) => keepsAlive)).toEqual([]);
    end();
    await world.clock.until(running);
    await world.clock.advance(1_000);
    expect(world.clock.pending).toEqual([]);
  });
});

describe("renewal without an answer", () => {
  test.for([
    [{ fail: new Error("ECONNRESET") }],
    [{ fail: new ReplyError("LOADING Redis is loading") }],
    [{ fail: new LockError("config", "Cannot reach Redis") }],
    [{ lose: "request" }],
    [{ lose: "reply" }],
    [{ answer: "OK" }],
  ] as const)("is tried again at once after %o, with the same token, and goes on", async ([fault]) => {
    const world = oneRedis({ leaseMs: 10_000 }, { extend: [fault] });
    const { lease, running } = await holding(world, 30_000);
    await world.clock.advance(5_500);
    expect(world.verbs()).toEqual(["acquire", "extend", "extend"]);
    const tokens = world.client.sent.slice(1).map((command) => command[4]);
    expect(tokens).toEqual([lease.token, lease.token]);
    await world.clock.until(running);
    expect(lease.signal.aborted).toBe(false);
    expect(types(world)).not.toContain("lost");
  });

  test("is tried again in the same instant", async () => {
    const sentAt: number[] = [];
    const world = oneRedis({ leaseMs: 10_000 }, (command) => {
      if (verbOf(command) !== "extend") return undefined;
      sentAt.push(world.clock.monotonic);
      return sentAt.length === 1 ? { requestMs: 5, fail: new Error("ECONNRESET") } : undefined;
    });
    const { running } = await holding(world, 6_000);
    await world.clock.until(running);
    expect(sentAt).toHaveLength(2);
    expect((sentAt[1] ?? 0) - (sentAt[0] ?? 0)).toBe(5);
  });

  test("is neither a renewal nor a loss: the old deadline stands", async () => {
    const world = oneRedis({ leaseMs: 10_000 }, { extend: [{ fail: new Error("ECONNRESET") }] });
    const { running } = await holding(world, 6_000);
    await world.clock.until(running);
    const [, unknown, renewed] = world.events;
    expect(unknown).toMatchObject({
      type: "renewal-unknown",
      requests: 1,
      nodes: [{ outcome: "unknown", reason: "ECONNRESET" }],
    });
    expect(unknown && "remainingMs" in unknown ? unknown.remainingMs : 0).toBeLessThan(5_500);
    expect(renewed).toMatchObject({ type: "renewed", remainingMs: 9_898 });
  });

  test("is tried in growing pauses until the deadline, and then never again", async () => {
    const world = oneRedis(
      { leaseMs: 10_000 },
      { extend: Array.from({ length: 100 }, () => ({ fail: new Error("ECONNREFUSED") })) },
    );
    const began = world.clock.monotonic;
    const { lease, running } = await holding(world, 60_000);
    let lostAt = 0;
    lease.signal.addEventListener("abort", () => {
      lostAt = world.clock.monotonic;
    });
    await lockError(world.clock.until(running), "lost");
    expect(lostAt - began).toBeCloseTo(9_898, 1);
    const tries = world.verbs().filter((verb) => verb === "extend").length;
    expect(tries).toBeGreaterThanOrEqual(5);
    expect(tries).toBeLessThanOrEqual(15);
    expect(types(world).filter((type) => type === "lost")).toHaveLength(1);
    expect(types(world).filter((type) => type === "renewal-unknown")).toHaveLength(tries);
  });

  test.for([
    ["20 ms", 0, [0, 20, 40, 80, 160, 320, 640, 1_000, 1_000]],
    ["half an answer's time where that is more", 100, [0, 150, 300, 600, 1_000, 1_000]],
  ] as const)("the second pause is %s, and those after it double up to a second", async ([, replyMs, pauses]) => {
    const sentAt: number[] = [];
    const world = oneRedis({ leaseMs: 30_000 }, (command) => {
      if (verbOf(command) !== "extend") return { replyMs };
      sentAt.push(world.clock.monotonic);
      return { fail: new Error("ECONNREFUSED") };
    });
    const { running } = await holding(world, 60_000);
    await lockError(world.clock.until(running), "lost");
    const passed = sentAt.slice(1).map((at, index) => Math.round(at - (sentAt[index] ?? 0)));
    expect(passed.slice(0, pauses.length)).toEqual(pauses);
  });

  test("a silent Redis does not hold the loss up", async () => {
    const world = oneRedis({ leaseMs: 10_000 }, (command) =>
      verbOf(command) === "extend" ? { lose: "request" } : undefined,
    );
    const began = world.clock.monotonic;
    const { lease } = await holding(world, 60_000);
    await world.clock.advance(9_898 - (world.clock.monotonic - began));
    expect(lease.signal.aborted).toBe(true);
    const sent = world.client.sent.length;
    await world.clock.advance(30_000);
    expect(world.client.sent).toHaveLength(sent);
  });
});

describe("renewal that is told of a loss", () => {
  test.for([
    ["a key that is gone", ["DEL", key], "expired"],
    ["another's token", ["SET", key, "theirs"], "stolen"],
  ] as const)("stops at %s: one lost event, nothing sent any more, nothing re-taken", async ([, command, by]) => {
    const world = oneRedis({ leaseMs: 10_000 });
    const { lease, running } = await holding(world, 100_000);
    await world.run(...command);
    await world.clock.advance(5_000);
    expect(lease.signal.reason).toMatchObject({ code: "lost", lostBy: by });
    await lockError(world.clock.until(running), "lost");
    expect(world.verbs()).toEqual(["acquire", "extend", "release"]);
    expect(types(world)).toEqual(["acquired", "lost", "released"]);
    expect(await world.run("GET", key)).toBe(by === "stolen" ? "theirs" : null);
  });

  test("a process that was frozen past its deadline sends nothing when it wakes", async () => {
    const world = oneRedis({ leaseMs: 10_000 });
    const { lease, running } = await holding(world, 20_000);
    world.clock.freeze(60_000);
    const next = await world.other.acquire("job", { leaseMs: 60_000 });
    await lockError(world.clock.until(running), "lost");
    expect(lease.remaining()).toBe(0);
    expect(world.verbs()).toEqual(["acquire", "release"]);
    expect(await world.run("GET", key)).toBe(next.token);
  });

  test("a process that was frozen with a renewal under way does not take its late answer for one", async () => {
    const world = oneRedis({ leaseMs: 2_000 }, { extend: [{ replyMs: 50 }] });
    const { lease, running } = await holding(world, 10_000);
    await extending(world);
    world.clock.freeze(5_000);
    await lockError(world.clock.until(running), "lost");
    expect(lease.remaining()).toBe(0);
    expect(types(world)).toEqual(["acquired", "lost", "released"]);
    expect(world.verbs()).toEqual(["acquire", "extend", "release"]);
  });
});

describe("renewal and release", () => {
  test.for([
    ["is answered", { requestMs: 100, replyMs: 100 }],
    ["fails", { requestMs: 100, fail: new Error("ECONNRESET") }],
    ["fails for good", { requestMs: 100, fail: new LockError("config", "Cannot reach Redis") }],
    ["is never answered", { lose: "reply" }],
  ] as const)("nothing follows a renewal that %s after the task has ended", async ([, fault]) => {
    const world = oneRedis({ leaseMs: 10_000 }, { extend: [fault] });
    const { running, end } = await holding(world);
    await extending(world);
    end();
    await world.clock.until(running);
    expect(world.verbs()).toEqual(["acquire", "extend", "release"]);
    await world.clock.advance(100_000);
    expect(world.verbs()).toEqual(["acquire", "extend", "release"]);
    expect(world.clock.pending).toEqual([]);
    expect(await world.run("EXISTS", key)).toBe(0);
    expect(types(world)).toEqual(["acquired", "released"]);
  });

  test("a renewal that lands after the release brings nothing back", async () => {
    const world = oneRedis({ leaseMs: 10_000 }, { extend: [{ requestMs: 200 }] });
    const { running, end } = await holding(world);
    await extending(world);
    end();
    await world.clock.until(running);
    expect(await world.run("EXISTS", key)).toBe(0);
    await world.clock.advance(1_000);
    expect(await world.run("EXISTS", key)).toBe(0);
  });

  test("a release by the task itself ends the renewing", async () => {
    const world = oneRedis({ leaseMs: 1_000 });
    const { lease, running } = await holding(world, 60_000);
    await lease.release();
    await world.clock.until(running);
    expect(world.verbs()).toEqual(["acquire", "release"]);
    expect(types(world)).toEqual(["acquired", "released"]);
  });

  test("a second lease of the same name does not suffer from the first one's end", async () => {
    const world = oneRedis({ leaseMs: 1_000 });
    const first = await holding(world);
    first.end();
    await world.clock.until(first.running);
    const second = await holding(world, 10_000);
    for (let passed = 0; passed < 9_000; passed += 100) {
      await world.clock.advance(100);
      expect(await world.run("PTTL", key)).toBeGreaterThan(1_000 / 3);
    }
    expect(second.lease.signal.aborted).toBe(false);
    await world.clock.until(second.running);
  });
});
