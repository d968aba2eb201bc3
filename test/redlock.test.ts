import { describe, expect, test } from "vitest";
import { memoryClient } from "../adapters/memory/index.ts";
import { ReplyError } from "../src/command.ts";
import type { Environment } from "../src/environment.ts";
import { LockError } from "../src/errors.ts";
import { inspectLock } from "../src/inspect.ts";
import { createRedlock } from "../src/redlock.ts";
import { key, proposalOf, type World, world } from "./redlock/world.ts";
import { faultyClient } from "./support/faulty-client.ts";
import { loosely } from "./support/loosely.ts";
import { shortened, tokenOf } from "./support/one-redis.ts";
import { lockError } from "./support/rejection.ts";
import { lasting, offClock, settle, virtualEnvironment } from "./support/virtual-clock.ts";

const lost = { lose: "request" } as const;
const down = { fail: new Error("ECONNREFUSED") };
const [us, day] = [1_000, 86_400_000];

/** The same environment for a process whose wall clock is off by so many ms. */
function skewed({ clock, ...rest }: World["env"], ms: number): Environment {
  return { ...rest, clock: offClock(clock, ms) };
}

describe("createRedlock()", () => {
  const client = memoryClient();
  const three = [memoryClient(), memoryClient(), memoryClient()];
  test.for<[unknown[], string]>([
    [[[]], "clients as it must be one or more, each of them once: current value is 0"],
    [[[client, client]], "clients as it must be one or more, each of them once: current value is 2"],
    [[three, { quorum: 1 }], "quorum as it must be an integer from 2 to 3: current value is 1"],
    [[three, { quorum: 4 }], "quorum as it must be an integer from 2 to 3: current value is 4"],
    [[three, { quorum: 2.5 }], "quorum as it must be an integer from 2 to 3: current value is 2.5"],
    [[three, { quorum: "2" }], 'quorum as it must be an integer from 2 to 3: current value is "2"'],
    [[[...three, client], { quorum: 2 }], "quorum as it must be an integer from 3 to 4: current value is 2"],
    [[three, { driftFactor: -0.1 }], "driftFactor as it must be from 0 up to 1: current value is -0.1"],
    [[three, { driftFactor: 1 }], "driftFactor as it must be from 0 up to 1: current value is 1"],
    [[three, { driftFactor: Number.NaN }], "driftFactor as it must be from 0 up to 1: current value is NaN"],
    [[three, { driftFactor: null }], "driftFactor as it must be from 0 up to 1: current value is null"],
    [[three, { driftFactor: "0.01" }], 'driftFactor as it must be from 0 up to 1: current value is "0.01"'],
    [[three, { leaseMs: 9 }], "leaseMs"],
    [
      [three, { quarantineMs: 9_999 }],
      "quarantineMs as it must be an integer of ms from 10000 to 31536000000: current value is 9999",
    ],
    [[three, { quarantineMs: 19, leaseMs: 20 }], "quarantineMs"],
    [[three, { quarantineMs: 19, leaseMs: Number.NaN }], "leaseMs"],
  ])("refuses %o", ([args, message]) => {
    expect(() => loosely(createRedlock, ...args)).toThrow(
      expect.objectContaining({ code: "config", message: expect.stringContaining(`Cannot use ${message}`) }),
    );
  });

  test("refuses a foreign client among its own", () => {
    expect(() => loosely(createRedlock, [client, { call() {} }])).toThrow(/ioredisClient/);
  });

  test.for([[undefined], [null], [7], ["redis://127.0.0.1:6379"]])("refuses %o for a list of clients", ([clients]) => {
    expect(() => loosely(createRedlock, clients)).toThrow(expect.objectContaining({ code: "config" }));
  });

  test("sends nothing, and reads neither clock, chance nor host before its first call", () => {
    const untouchable = new Proxy({}, { get: () => expect.fail("touched") });
    const env = { clock: untouchable, random: untouchable, host: untouchable };
    const silent = () => ({ execute: () => expect.fail("sent") });
    loosely(createRedlock, [silent(), silent(), silent()], {}, env);
  });

  test("on Workers takes five nodes and refuses six at the first call, before anything is sent", async () => {
    const env = virtualEnvironment(1, { isolatesRequests: true });
    const clients = (count: number) => Array.from({ length: count }, () => memoryClient({}, env));
    const six = clients(6);
    const error = await lockError(createRedlock(six, {}, env).acquire("job"), "config");
    expect(error.message).toBe("Cannot use clients as it must be at most 5 on Workers: current value is 6");
    for (const node of six) expect(await node.execute(["DBSIZE"])).toBe(0);
    expect((await createRedlock(clients(5), {}, env).acquire("job")).remaining()).toBeGreaterThan(0);
    expect((await createRedlock(clients(6), {}, virtualEnvironment()).acquire("job")).remaining()).toBeGreaterThan(0);
  });

  test("waits 100 ms at least for one of several nodes, and 250 ms for one alone", async () => {
    for (const [count, leastMs] of [
      [1, 250],
      [3, 100],
    ] as const) {
      const { lock, clock } = world(count, {}, ({ verb }) => (verb === "extend" ? lost : undefined));
      const lease = await lock.acquire("job");
      await clock.advance(1);
      const began = clock.monotonic;
      await lockError(clock.until(lease.extend()), "unavailable");
      expect(clock.monotonic - began).toBe(leastMs);
    }
  });

  test("takes driftFactor off every lease", async () => {
    for (const [driftFactor, left] of [
      [undefined, 9_898],
      [0, 9_998],
      [0.1, 8_998],
    ] as const) {
      const { lock } = world(3, { driftFactor });
      expect((await lock.acquire("job")).remaining()).toBe(left);
    }
  });

  test("over one node is the lock of one node: it chooses the fence, and a try finds what a lost reply granted", async () => {
    const { lock, clock, sent, run } = world(1, { waitMs: 0 }, ({ place, verb }) =>
      verb === "acquire" && place === 0 ? { lose: "reply" } : undefined,
    );
    const lease = await clock.until(lock.acquire("job"));
    expect(sent.map(({ verb }) => verb)).toEqual(["acquire", "acquire"]);
    expect(await run("GET", key)).toEqual([lease.token]);
    const { lock: contended, other, sentOf } = world(1, { waitMs: 0 });
    await other.acquire("job");
    await lockError(contended.acquire("job"), "contended");
    expect(sentOf("release")).toEqual([]);
  });
});

describe("a Redlock's acquire()", () => {
  test("puts one token and one fence on every node, in one request each", async () => {
    const { lock, clock, run, sent, events } = world(5);
    const lease = await lock.acquire("job");
    await clock.advance(1);
    expect(await run("GET", key)).toEqual(Array(5).fill(lease.token));
    expect(await run("GET", `${key}:fence`)).toEqual(Array(5).fill(String(lease.fence)));
    expect(lease.fence).toBe((clock.wall - 1) * us);
    expect(sent).toHaveLength(5);
    expect(events[0]).toMatchObject({ type: "acquired", fence: lease.fence, requests: 5, remainingMs: 9_898 });
  });

  test("returns at the q-th grant, and charges its whole way", async () => {
    const ways = [20, 30, 40, 800, 900];
    const { lock, clock, events } = world(5, { leaseMs: 10_000 }, ({ node }) => ({ replyMs: ways[node] ?? 0 }));
    const began = clock.monotonic;
    const lease = await clock.until(lock.acquire("job"));
    expect(clock.monotonic - began).toBe(40);
    // 40 ms of flight already, and 3 × 40 that the next write may take: the way of the third fastest, smoothed + 4 × variation.
    expect(lease.remaining()).toBe(10_000 - 40 - 102 - 120);
    expect(events).toMatchObject([{ type: "acquired", requests: 5, durationMs: 40 }]);
    expect(events[0]?.nodes.map(({ label }) => label)).toEqual(["node 1", "node 2", "node 3"]);
  });

  test.for([
    [2, 1, 2],
    [3, 1, 2],
    [3, 2, 2],
    [4, 1, 3],
    [4, 2, 3],
    [5, 2, 3],
    [5, 3, 3],
  ] as const)("of %i nodes with %i down needs %i", async ([count, down, quorum]) => {
    const { lock, clock } = world(count, { waitMs: 0 }, ({ node }) => (node < down ? lost : undefined));
    const acquiring = lock.acquire("job");
    if (count - down >= quorum) expect((await clock.until(acquiring)).remaining()).toBeGreaterThan(0);
    else expect((await lockError(clock.until(acquiring), "unavailable")).nodes).toHaveLength(count);
  });

  test("a raised quorum needs as many", async () => {
    const faults = (silent: number) =>
      world(5, { quorum: 4, waitMs: 0 }, ({ node }) => (node < silent ? lost : undefined));
    const one = faults(1);
    expect((await one.clock.until(one.lock.acquire("job"))).remaining()).toBeGreaterThan(0);
    const two = faults(2);
    await lockError(two.clock.until(two.lock.acquire("job")), "unavailable");
  });

  test("fails as soon as more than N - q nodes have said no, of an even number too", async () => {
    for (const [count, noes] of [
      [3, 2],
      [4, 2],
      [5, 3],
    ] as const) {
      const { lock, clock, run, events } = world(count, { waitMs: 0 }, ({ node, verb }) =>
        verb === "acquire" && node >= noes ? { requestMs: 900 } : { replyMs: 10 },
      );
      await run("SET", key, "theirs", "PX", 60_000);
      const began = clock.monotonic;
      await lockError(clock.until(lock.acquire("job")), "contended");
      expect(events[0]).toMatchObject({ type: "contended", durationMs: 10, requests: count });
      expect(events[0]?.nodes).toHaveLength(noes);
      expect(clock.monotonic - began).toBe(20);
    }
  });

  test("a grant that comes late is told, and is one more node that keeps the lease", async () => {
    const { lock, clock, nodes, events } = world(3, {}, ({ node, verb }) =>
      node === 2 && verb === "acquire" ? { replyMs: 500 } : undefined,
    );
    const lease = await lock.acquire("job");
    await clock.advance(500);
    expect(events[1]).toEqual({
      type: "late-grant",
      name: "job",
      fence: lease.fence,
      requests: 1,
      durationMs: 500,
      nodes: [{ label: "node 3", outcome: "granted", ms: 500 }],
    });
    await nodes[0]?.execute(["FLUSHALL"]);
    await lease.extend(5_000);
    expect(lease.remaining()).toBe(9_500 - 102);
  });

  test("a grant that comes late takes nothing back of what an extend has brought since", async () => {
    const { lock, clock } = world(3, { leaseMs: 10_000 }, ({ node, verb }) => {
      if (verb === "acquire") return node === 2 ? { replyMs: 900 } : undefined;
      return node === 0 ? down : undefined;
    });
    const lease = await lock.acquire("job");
    await clock.advance(500);
    await lease.extend(60_000);
    await clock.advance(500);
    expect(lease.remaining()).toBe(60_000 - 602 - 500);
  });

  test("a grant that comes late moves the deadline at which the signal aborts", async () => {
    const { lock, clock, types } = world(3, {}, ({ node, verb, command }) => {
      if (verb !== "acquire") return undefined;
      return node === 0 ? { answer: [1, proposalOf(command), 5_000] } : node === 2 ? { replyMs: 500 } : undefined;
    });
    const lease = await lock.acquire("job");
    expect(lease.remaining()).toBe(5_000 - 102);
    await clock.advance(10_000 - 102 - 1);
    expect(types()).not.toContain("lost");
    await clock.advance(1);
    expect(types().at(-1)).toBe("lost");
  });

  test("a grant that comes after the deadline brings no lease back, though nobody has looked in between", async () => {
    const options = { leaseMs: 2_000, observe: undefined };
    const { lock, clock } = world(3, options, ({ node, verb, command }) => {
      if (verb !== "acquire") return undefined;
      return node === 0 ? { answer: [1, proposalOf(command), 300] } : node === 2 ? { replyMs: 450 } : undefined;
    });
    const lease = await lock.acquire("job");
    expect(lease.remaining()).toBe(300 - 22);
    await clock.advance(500);
    expect(lease.remaining()).toBe(0);
    expect(lease.signal.aborted).toBe(true);
  });

  test("a grant that comes after the release is not told, and was deleted", async () => {
    const { lock, clock, run, types } = world(3, {}, ({ node, verb }) =>
      node === 2 && verb === "acquire" ? { replyMs: 500 } : undefined,
    );
    const lease = await lock.acquire("job");
    expect(await lease.release()).toBe("released");
    await clock.advance(1_000);
    expect(types()).toEqual(["acquired", "released"]);
    expect(await run("EXISTS", key)).toEqual([0, 0, 0]);
  });

  test("an acquire that lands after the release is refused, as a tombstone stands there", async () => {
    const { lock, clock, run, types } = world(3, {}, ({ node, verb }) =>
      node === 2 && verb === "acquire" ? { requestMs: 60_000 } : undefined,
    );
    const lease = await lock.acquire("job");
    await lease.release();
    await clock.advance(61_000);
    expect(await run("EXISTS", key)).toEqual([0, 0, 0]);
    expect(types()).toEqual(["acquired", "released"]);
  });

  test("a lease of which every node has answered leaves nothing but fences behind", async () => {
    const { lock, clock, run } = world(3);
    const lease = await lock.acquire("job");
    await clock.advance(1);
    await lease.release();
    expect(await run("DBSIZE")).toEqual([1, 1, 1]);
  });
});

describe("a round that is lost", () => {
  test("is rolled back on all nodes, whatever they said, and the next one has another token", async () => {
    const { lock, clock, nodes, sentOf, run } = world(3, {}, ({ node, verb, place }) =>
      node === 1 && verb === "acquire" && place === 0 ? { fail: new ReplyError("OOM"), lose: "reply" } : undefined,
    );
    await nodes[2]?.execute(["SET", key, "theirs", "PX", 1_000]);
    const lease = await clock.until(lock.acquire("job"));
    const [first, second] = [0, 1].map((place) => sentOf("acquire", 0)[place]?.command ?? []);
    expect(tokenOf(first ?? [])).not.toBe(tokenOf(second ?? []));
    for (const node of [0, 1, 2]) expect(tokenOf(sentOf("release", node)[0]?.command ?? [])).toBe(tokenOf(first ?? []));
    expect(await run("EXISTS", `${key}:void:${tokenOf(first ?? [])}`)).toEqual([1, 1, 1]);
    expect((await run("GET", key)).filter((token) => token === lease.token)).toHaveLength(2);
  });

  test("its roll-back is not waited for before the next one, only on giving up, up to the node's time-out", async () => {
    const { lock, clock, run, sentOf, types } = world(3, { waitMs: 1_000 }, ({ node, verb }) =>
      verb === "release" && node === 0 ? lost : undefined,
    );
    await run("SET", key, "theirs", "PX", 60_000);
    const began = clock.monotonic;
    await lockError(clock.until(lock.acquire("job")), "timeout");
    expect(sentOf("acquire", 1).length).toBeGreaterThan(3);
    const last = sentOf("acquire", 1).at(-1)?.at ?? 0;
    expect(last - began).toBe(1_000);
    expect(clock.monotonic - last).toBeLessThanOrEqual(2_500);
    expect(clock.monotonic - last).toBeGreaterThan(0);
    expect(types()).toContain("rolled-back");
  });

  test("on giving up each round's roll-back is waited for, not the last one's alone", async () => {
    const { lock, clock } = world(3, { waitMs: 0 }, ({ verb, place, command }) => {
      if (verb === "acquire") return { answer: [-3, proposalOf(command), 0] };
      return place === 0 ? { replyMs: 90 } : undefined;
    });
    const began = clock.monotonic;
    await lockError(clock.until(lock.acquire("job")), "contended");
    expect(clock.monotonic - began).toBe(90);
  });

  test("waitUntil receives its roll-back and the wait for stragglers, and giving up waits for neither", async () => {
    const works: Promise<unknown>[] = [];
    const { lock, clock, run, nodes } = world(
      3,
      { waitMs: 0, waitUntil: (work) => void works.push(work) },
      ({ node, verb }) => (verb === "release" || node === 2 ? { replyMs: 300 } : undefined),
    );
    await run("SET", key, "theirs", "PX", 60_000);
    await nodes[2]?.execute(["DEL", key]);
    const began = clock.monotonic;
    await lockError(lock.acquire("job"), "contended");
    expect(clock.monotonic).toBe(began);
    expect(works.length).toBeGreaterThanOrEqual(2);
    await clock.until(Promise.all(works));
    expect(await nodes[2]?.execute(["EXISTS", key])).toBe(0);
  });

  test("its roll-back is tried three times where a node does not answer, and frees it then", async () => {
    const { lock, clock, run, sentOf } = world(3, { waitMs: 0 }, ({ node, verb, place }) => {
      if (verb === "acquire") return node === 0 ? { lose: "reply" } : down;
      return node === 0 && place < 2 ? lost : undefined;
    });
    await lockError(clock.until(lock.acquire("job")), "unavailable");
    expect(await run("EXISTS", key)).toEqual([1, 0, 0]);
    await clock.advance(10_000 - (clock.monotonic - (sentOf("acquire", 0)[0]?.at ?? 0)) - 1);
    expect(await run("EXISTS", key)).toEqual([0, 0, 0]);
    expect(sentOf("release", 0)).toHaveLength(3);
    expect(sentOf("release", 1)).toHaveLength(1);
  });

  test("its roll-back survives the caller's abort", async () => {
    const controller = new AbortController();
    const { lock, clock, run, sentOf } = world(3, {}, ({ node, verb }) =>
      verb === "acquire" && node > 0 ? { requestMs: 50 } : undefined,
    );
    const acquiring = lock.acquire("job", { signal: controller.signal });
    await clock.advance(10);
    controller.abort(new Error("enough"));
    expect((await lockError(clock.until(acquiring), "aborted")).cause).toMatchObject({ message: "enough" });
    expect(sentOf("release")).toHaveLength(3);
    await clock.advance(1_000);
    expect(await run("EXISTS", key)).toEqual([0, 0, 0]);
  });

  test("of a signal that has aborted before, nothing is sent", async () => {
    const { lock, sent } = world(3);
    await lockError(lock.acquire("job", { signal: AbortSignal.abort() }), "aborted");
    expect(sent).toEqual([]);
  });

  test("of a client that is not fit for use, the others are rolled back and its own error is thrown", async () => {
    const env = virtualEnvironment();
    const [a, b] = [memoryClient({}, env), memoryClient({}, env)];
    const [far, near] = [a, b].map((node) => faultyClient(node, env.clock, () => ({ replyMs: 5 })));
    const unfit = { execute: () => Promise.reject(new LockError("config", "Cannot use url")) };
    const lock = loosely(createRedlock, [far, unfit, near], {}, env);
    expect((await lockError(env.clock.until(lock.acquire("job")), "config")).message).toBe("Cannot use url");
    for (const node of [a, b]) expect(await node.execute(["EXISTS", key])).toBe(0);
  });
});

describe("a Redlock's errors", () => {
  test("contention says so, with each node's word and when the name can be free", async () => {
    const { lock, clock, other, events } = world(3, { waitMs: 0 });
    await other.acquire("job", { leaseMs: 60_000 });
    await clock.advance(1_000);
    const error = await lockError(lock.acquire("job"), "contended");
    expect(error.retryAfterMs).toBe(59_000);
    expect(error.nodes?.slice(0, 2)).toEqual([
      { label: "node 1", outcome: "held", ms: 0 },
      { label: "node 2", outcome: "held", ms: 0 },
    ]);
    expect(events.map(({ type }) => type)).toEqual(["contended", "acquire-failed", "rolled-back"]);
  });

  test("that time is when a quorum is free, not when the last node is", async () => {
    const { lock, nodes } = world(3, { waitMs: 0 });
    for (const [index, node] of nodes.entries()) await node.execute(["SET", key, "theirs", "PX", 1_000 * (index + 1)]);
    expect((await lockError(lock.acquire("job"), "contended")).retryAfterMs).toBe(2_000);
    await nodes[0]?.execute(["DEL", key]);
    expect((await lockError(lock.acquire("job"), "contended")).retryAfterMs).toBe(2_000);
    for (const node of nodes.slice(1)) await node.execute(["SET", key, "theirs"]);
    expect((await lockError(lock.acquire("job"), "contended")).retryAfterMs).toBeUndefined();
  });

  test("whichever node says it first", async () => {
    const { lock, nodes } = world(3, { waitMs: 0 });
    for (const [index, ms] of [2_000, 3_000, 1_000].entries()) {
      await nodes[index]?.execute(["SET", key, "theirs", "PX", ms]);
    }
    expect((await lockError(lock.acquire("job"), "contended")).retryAfterMs).toBe(2_000);
  });

  test("of as many as are needed, or of all that have said so by then", async () => {
    const five = world(5, { waitMs: 0 });
    for (const [index, node] of five.nodes.entries()) {
      await node.execute(["SET", key, "theirs", "PX", 1_000 * (index + 1)]);
    }
    expect((await lockError(five.lock.acquire("job"), "contended")).retryAfterMs).toBe(3_000);
    const four = world(4, { waitMs: 0 }, ({ node }) => (node > 1 ? { replyMs: 50 } : undefined));
    await four.run("SET", key, "theirs", "PX", 5_000);
    expect((await lockError(four.clock.until(four.lock.acquire("job")), "contended")).retryAfterMs).toBe(5_000);
  });

  test("of an even number as well", async () => {
    const { lock, run } = world(4, { waitMs: 0 });
    await run("SET", key, "theirs", "PX", 5_000);
    expect((await lockError(lock.acquire("job"), "contended")).retryAfterMs).toBe(5_000);
  });

  test("an outage is told as waitMs is over, however long a node is given otherwise", async () => {
    const { lock, clock } = world(3, { waitMs: 1_500, waitUntil: () => {} }, () => lost);
    const began = clock.monotonic;
    await lockError(clock.until(lock.acquire("job")), "unavailable");
    expect(clock.monotonic - began).toBe(1_500);
  });

  test("contention for all of waitMs is a timeout", async () => {
    const { lock, clock, other } = world(3, { waitMs: 500 });
    await other.acquire("job", { leaseMs: 60_000 });
    const error = await lockError(clock.until(lock.acquire("job")), "timeout");
    expect(error.cause).toMatchObject({ code: "contended" });
  });

  test("an outage of a majority is unavailable, with each node's trouble", async () => {
    const { lock, clock } = world(5, { waitMs: 0 }, ({ node }) => [undefined, { replyMs: 5 }, down, lost, lost][node]);
    const error = await lockError(clock.until(lock.acquire("job")), "unavailable");
    expect(error.message).toMatch(/too few definite answers: node 3: ECONNREFUSED; node 1: granted; .*node 4: timeout/);
    expect(error.nodes).toEqual([
      { label: "node 3", outcome: "unknown", reason: "ECONNREFUSED", ms: 0 },
      { label: "node 1", outcome: "granted", ms: 0 },
      { label: "node 2", outcome: "granted", ms: 5 },
      { label: "node 4", outcome: "unknown", reason: "timeout", ms: 1_000 },
      { label: "node 5", outcome: "unknown", reason: "timeout", ms: 1_000 },
    ]);
  });

  test("an outage of a minority is not: what the others say decides", async () => {
    const { lock, clock, run } = world(3, { waitMs: 0 }, ({ node }) => (node === 0 ? down : undefined));
    await run("SET", key, "theirs", "PX", 60_000);
    await lockError(clock.until(lock.acquire("job")), "contended");
  });

  test("a node that was still pending when the round was decided does not count", async () => {
    const { lock, clock, run, events } = world(5, { waitMs: 0 }, ({ node }) =>
      [undefined, undefined, { replyMs: 20 }, { replyMs: 900 }, { replyMs: 900 }].at(node),
    );
    await run("SET", key, "theirs", "PX", 60_000);
    await lockError(clock.until(lock.acquire("job")), "contended");
    expect(events[0]?.nodes.map(({ outcome }) => outcome)).toEqual(["held", "held", "held"]);
  });

  test("wrong credentials on a minority change nothing, on a majority they are config, at once", async () => {
    const denied = { fail: new ReplyError("WRONGPASS invalid username-password pair") };
    const one = world(3, {}, ({ node }) => (node === 0 ? denied : undefined));
    expect((await one.clock.until(one.lock.acquire("job"))).remaining()).toBeGreaterThan(0);
    const two = world(3, {}, ({ node }) => (node < 2 ? denied : undefined));
    const began = two.clock.monotonic;
    await lockError(two.clock.until(two.lock.acquire("job")), "config");
    expect(two.clock.monotonic).toBe(began);
    await settle();
    expect(await two.run("EXISTS", key)).toEqual([0, 0, 0]);
  });

  test("wrong credentials on one node do not end the waiting for another that is down", async () => {
    const { lock, clock } = world(3, {}, ({ node, place }) => {
      if (node === 0) return { fail: new ReplyError("NOAUTH Authentication required.") };
      return node === 1 && place < 2 ? down : undefined;
    });
    expect((await clock.until(lock.acquire("job"))).remaining()).toBeGreaterThan(0);
  });

  test("a lease that is too short is rolled back everywhere, tried again, and refused with the numbers", async () => {
    const { lock, clock, run, sentOf, types } = world(3, { leaseMs: 100, waitMs: 1_000 }, () => ({ replyMs: 80 }));
    const error = await lockError(clock.until(lock.acquire("job")), "config");
    expect(error.message).toMatch(/leaseMs 100 is too short for a round trip of 80 ms: use \d+ or more$/);
    expect(types()).not.toContain("acquired");
    for (const verb of ["acquire", "release"] as const)
      expect(sentOf(verb).length).toBe(sentOf("acquire", 0).length * 3);
    expect(new Set(sentOf("acquire").map(({ command }) => tokenOf(command))).size).toBeGreaterThan(1);
    await clock.advance(1_000);
    expect(await run("EXISTS", key)).toEqual([0, 0, 0]);
    expect(clock.pending).toEqual([]);
  });
});

describe("a Redlock's fences", () => {
  test("are the wall clock in µs, and grow within its ms", async () => {
    const { lock, clock, types } = world(3);
    const fences: number[] = [];
    for (let i = 0; i < 5; i += 1) {
      const lease = await lock.acquire("job");
      fences.push(lease.fence - clock.wall * us);
      await lease.release();
    }
    expect(fences).toEqual([0, 1, 2, 3, 4]);
    expect(types()).not.toContain("contended");
  });

  test("a proposal that is too low is raised at once, without sleeping", async () => {
    const { lock, clock, run, sentOf } = world(3, { waitMs: 0 });
    const ahead = (clock.wall + 5_000) * us;
    await run("SET", `${key}:fence`, ahead);
    const began = clock.monotonic;
    const lease = await lock.acquire("job");
    expect(lease.fence).toBe(ahead + 1);
    expect(clock.monotonic).toBe(began);
    expect(sentOf("acquire")).toHaveLength(6);
  });

  test("a client that lags learns the counter from whoever refuses it", async () => {
    const { lock, nodes, env, clock, sentOf } = world(3, { waitMs: 20_000 });
    const first = await createRedlock(nodes, {}, skewed(env, 60_000)).acquire("job", { leaseMs: 1_000 });
    const second = await clock.until(lock.acquire("job"));
    expect(second.fence).toBeGreaterThan(first.fence);
    expect(
      sentOf("acquire")
        .slice(3)
        .every(({ command }) => proposalOf(command) > first.fence),
    ).toBe(true);
  });

  test("it is raised at once three times at most, then by the schedule", async () => {
    const { lock, clock, sentOf, run } = world(3, { waitMs: 300 }, ({ verb, command }) =>
      verb === "acquire" ? { answer: [-3, proposalOf(command), 0] } : undefined,
    );
    const began = clock.monotonic;
    await lockError(clock.until(lock.acquire("job")), "timeout");
    const times = sentOf("acquire", 0).map(({ at }) => at - began);
    expect(times.slice(0, 4)).toEqual([0, 0, 0, 0]);
    expect(times.length).toBeGreaterThan(4);
    expect(times[4]).toBeGreaterThan(0);
    await clock.advance(1);
    expect(await run("EXISTS", key)).toEqual([0, 0, 0]);
  });

  test("a node that refuses the fence while others are held by another is contention, with a pause", async () => {
    const { lock, clock, nodes, sentOf } = world(3, { waitMs: 200 });
    for (const node of nodes.slice(0, 2)) await node.execute(["SET", key, "theirs", "PX", 60_000]);
    await nodes[2]?.execute(["SET", `${key}:fence`, (clock.wall + 5_000) * us]);
    await lockError(clock.until(lock.acquire("job")), "timeout");
    const [first, second] = sentOf("acquire", 0);
    expect((second?.at ?? 0) - (first?.at ?? 0)).toBeGreaterThan(0);
  });

  test("one node whose counter is far in the future stops nobody", async () => {
    const { lock, clock, nodes, other } = world(3);
    await nodes[0]?.execute(["SET", `${key}:fence`, (clock.wall + 3 * day) * us]);
    const held = await other.acquire("job", { leaseMs: 60_000 });
    const waiting = lock.acquire("job");
    await clock.advance(1_000);
    await held.release();
    const lease = await clock.until(waiting);
    expect(lease.fence).toBeGreaterThan(held.fence);
    expect(lease.fence).toBeLessThan((clock.wall + day) * us);
  });

  test.for([
    ["a client whose clock is two days ahead of the nodes", 2 * day],
    ["a client whose clock is two days behind what the nodes have granted", -2 * day],
  ] as const)("%s is told so, with config", async ([, step]) => {
    const { clock, nodes, other, env } = world(3);
    const held = await other.acquire("job");
    await held.release();
    const lock = createRedlock(nodes, {}, skewed(env, step));
    const error = await lockError(clock.until(lock.acquire("job")), "config");
    expect(error.message).toBe(
      'Cannot acquire "job" as the clocks of this client and of the nodes are more than a day apart',
    );
    expect(error.nodes?.[0]?.outcome).toBe(step > 0 ? "fence-in-future" : "fence-too-low");
    await clock.advance(1);
    for (const node of nodes) expect(await node.execute(["EXISTS", key])).toBe(0);
  });

  test("two clients that propose the same fence are never both granted", async () => {
    const { lock, other, clock } = world(3, { waitMs: 0 });
    const both = await clock.until(
      Promise.all([lock.acquire("job"), other.acquire("job", { waitMs: 0 })].map((one) => one.catch(() => undefined))),
    );
    expect(both.filter((lease) => lease)).toHaveLength(1);
  });
});

describe("a Redlock's lease", () => {
  test("is extended once a quorum has extended it, and lasts as long as the q-th largest bound", async () => {
    const { lock, clock } = world(5, { leaseMs: 10_000 }, ({ node, verb }) =>
      verb === "extend" && node > 2 ? lost : undefined,
    );
    const lease = await lock.acquire("job");
    await clock.advance(5_000);
    const began = clock.monotonic;
    await lease.extend();
    expect(clock.monotonic).toBe(began);
    expect(lease.remaining()).toBe(9_898);
  });

  test("a partial extend is no loss: the old deadline stands, and it is decided before every time-out has passed", async () => {
    const { lock, clock, types } = world(3, { leaseMs: 10_000 }, ({ node, verb }) =>
      verb === "extend" ? [undefined, down, { replyMs: 2_000 }][node] : undefined,
    );
    const lease = await lock.acquire("job");
    await clock.advance(5_000);
    const began = clock.monotonic;
    const error = await lockError(clock.until(lease.extend()), "unavailable");
    expect(clock.monotonic - began).toBeLessThanOrEqual(100);
    expect(error.nodes?.map(({ outcome }) => outcome)).toEqual(["unknown", "extended", "unknown"]);
    expect(lease.remaining()).toBe(9_898 - (clock.monotonic - began) - 5_000);
    expect(lease.signal.aborted).toBe(false);
    expect(types()).not.toContain("lost");
  });

  test("two halves on different nodes do count together for the deadline, as each is a bound of its own", async () => {
    let round = 0;
    const { lock, clock } = world(3, { leaseMs: 10_000 }, ({ node, verb }) =>
      verb === "extend" && node !== round ? down : undefined,
    );
    const lease = await lock.acquire("job");
    await clock.advance(5_000);
    await lockError(clock.until(lease.extend()), "unavailable");
    await clock.advance(1_000);
    round = 1;
    await lockError(clock.until(lease.extend()), "unavailable");
    expect(lease.remaining()).toBe(9_898 - 1_000);
  });

  test("is lost as soon as more than N - q nodes do not keep it, and says why", async () => {
    for (const [command, lostBy] of [
      [["DEL", key], "expired"],
      [["SET", key, "theirs"], "stolen"],
    ] as const) {
      const { lock, nodes, clock, types } = world(5, {}, ({ node, verb }) =>
        verb === "extend" && node > 2 ? { replyMs: 90 } : undefined,
      );
      const lease = await lock.acquire("job");
      await clock.advance(1);
      for (const node of nodes.slice(0, 3)) await node.execute([...command]);
      const began = clock.monotonic;
      expect((await lockError(clock.until(lease.extend()), "lost")).lostBy).toBe(lostBy);
      expect(clock.monotonic).toBe(began);
      expect(types().at(-1)).toBe("lost");
      expect(lease.signal.reason).toMatchObject({ lostBy });
    }
  });

  test("another's token on a minority is not theft", async () => {
    const { lock, clock, nodes } = world(5);
    const lease = await lock.acquire("job");
    await clock.advance(1);
    await nodes[0]?.execute(["SET", key, "theirs"]);
    for (const node of nodes.slice(1, 3)) await node.execute(["DEL", key]);
    expect((await lockError(clock.until(lease.extend()), "lost")).lostBy).toBe("expired");
  });

  test("is lost at once where the answer that tells so comes after its round was given up", async () => {
    const { lock, clock, nodes, types } = world(5, {}, ({ node, verb }) =>
      verb === "extend" ? [undefined, undefined, down, { replyMs: 50 }, { replyMs: 50 }][node] : undefined,
    );
    const lease = await lock.acquire("job");
    await clock.advance(1);
    for (const place of [0, 1, 3]) await nodes[place]?.execute(["DEL", key]);
    await lockError(lease.extend(), "unavailable");
    await clock.advance(49);
    expect(types()).not.toContain("lost");
    await clock.advance(1);
    expect(types().at(-1)).toBe("lost");
  });

  test("hears of a loss from an answer that comes after its round was decided", async () => {
    const { lock, clock, nodes, types } = world(3, {}, ({ node, verb }) =>
      verb === "extend" ? [undefined, undefined, { replyMs: 50 }][node] : undefined,
    );
    const lease = await lock.acquire("job");
    await clock.advance(1);
    await nodes[2]?.execute(["DEL", key]);
    await lease.extend(); // nodes 1 and 2; node 3 says later that it has nothing
    await nodes[1]?.execute(["DEL", key]);
    const second = lease.extend();
    second.catch(() => {});
    await clock.advance(60);
    await lockError(second, "lost");
    expect(types().at(-1)).toBe("lost");
  });

  test("a node that has lost it counts for nothing, even if it says extended later", async () => {
    const { lock, clock, nodes } = world(3, {}, ({ node, verb, place }) =>
      verb === "extend" && node === 1 && place > 0 ? down : undefined,
    );
    const lease = await lock.acquire("job");
    await clock.advance(1);
    await nodes[0]?.execute(["DEL", key]);
    await lease.extend();
    await nodes[0]?.execute(["SET", key, lease.token, "PX", 60_000]);
    await lockError(clock.until(lease.extend(60_000)), "unavailable");
    expect(lease.remaining()).toBe(9_898);
  });

  test("a node without it counts for nothing where it was granted on the others only", async () => {
    const { lock, clock, nodes } = world(3, {}, ({ node, verb }) =>
      node === 2 && verb === "acquire" ? down : undefined,
    );
    const lease = await lock.acquire("job");
    await clock.advance(1);
    await lease.extend();
    await nodes[0]?.execute(["FLUSHALL"]);
    await lockError(clock.until(lease.extend()), "lost");
  });

  test("a node that has never answered counts for nothing", async () => {
    const { lock, clock, nodes, types } = world(3, {}, ({ node }) => (node === 2 ? lost : undefined));
    const lease = await lock.acquire("job");
    await clock.advance(1);
    await nodes[0]?.execute(["DEL", key]);
    await lockError(clock.until(lease.extend()), "lost");
    expect(types().at(-1)).toBe("lost");
  });

  test("its renewals are due by the way to a quorum, not by that to a dead node", async () => {
    const { lock, clock, sentOf } = world(3, { leaseMs: 10_000 }, ({ node }) => (node === 2 ? lost : { replyMs: 5 }));
    await clock.until(
      lock.withLock("job", () => lasting(clock, 60_000)),
      200_000,
    );
    const at = sentOf("extend", 0).map((one) => one.at);
    for (const [index, time] of at.entries()) {
      if (index > 0) expect(time - (at[index - 1] ?? 0)).toBeGreaterThan(4_000);
    }
    expect(at.length).toBeGreaterThan(10);
  });
});

describe("a Redlock's release()", () => {
  test("is decided at the q-th deletion, and frees every node", async () => {
    const { lock, clock, run } = world(5, {}, ({ node, verb }) =>
      verb === "release" && node > 2 ? { replyMs: 80 } : undefined,
    );
    const lease = await lock.acquire("job");
    await clock.advance(1);
    const began = clock.monotonic;
    expect(await lease.release()).toBe("released");
    expect(clock.monotonic).toBe(began);
    expect(await run("EXISTS", key)).toEqual([0, 0, 0, 0, 0]);
    expect(await lease.release()).toBe("already-released");
  });

  test.for([
    ["expired", [0, 1], [["DEL", key]]],
    ["stolen", [0, 1], [["SET", key, "theirs"]]],
    ["expired", [0, 1, 2], [["DEL", key]]],
    ["released", [0], [["SET", key, "theirs"]]],
  ] as const)("says %s where nodes %o have been told %o", async ([outcome, places, [command]]) => {
    const { lock, clock, nodes } = world(3, {}, ({ node, verb }) =>
      verb === "release" ? { replyMs: node * 10 } : undefined,
    );
    const lease = await lock.acquire("job");
    await clock.advance(1);
    for (const place of places) await nodes[place]?.execute([...command]);
    expect(await clock.until(lease.release())).toBe(outcome);
  });

  test("is unavailable while fewer than a quorum have answered; a second call counts with what the first has heard", async () => {
    const { lock, clock, run, sentOf } = world(3, {}, ({ node, verb, place }) => {
      if (verb !== "release") return undefined;
      return [
        [undefined, { lose: "reply" }, down],
        [down, undefined, down],
      ][place]?.[node] as undefined;
    });
    const lease = await lock.acquire("job");
    await clock.advance(1);
    const error = await lockError(clock.until(lease.release()), "unavailable");
    expect(error.nodes?.map(({ outcome }) => outcome).sort()).toEqual(["deleted", "unknown", "unknown"]);
    expect(await clock.until(lease.release())).toBe("released");
    expect([0, 1, 2].map((node) => sentOf("release", node).length)).toEqual([1, 2, 2]);
    expect(await run("EXISTS", key)).toEqual([0, 0, 1]);
  });

  test("leaves a tombstone only where some acquire was never answered", async () => {
    const { lock, clock, run, sentOf } = world(3, {}, ({ node, verb, place }) =>
      verb === "acquire" && node === 0 && place === 0 ? { fail: new Error("reset"), lose: "reply" } : undefined,
    );
    const first = await lock.acquire("job");
    await clock.advance(1);
    await first.release();
    expect(await run("EXISTS", `${key}:void:${first.token}`)).toEqual([1, 1, 1]);
    const second = await lock.acquire("job");
    await clock.advance(1);
    await second.release();
    expect(await run("EXISTS", `${key}:void:${second.token}`)).toEqual([0, 0, 0]);
    expect(sentOf("release")).toHaveLength(6);
  });
});

describe("inspectLock() of a Redlock", () => {
  test("shows the same token on a quorum, and names the odd ones", async () => {
    const { lock, clock, nodes, env } = world(5);
    const lease = await lock.acquire("job");
    await clock.advance(1);
    await nodes[1]?.execute(["SET", key, "tOther", "PX", 5_000]);
    await nodes[3]?.execute(["FLUSHALL"]);
    const { held, token, fence, nodes: states } = await inspectLock(nodes, "job", {}, env);
    expect({ held, token, fence }).toEqual({ held: true, token: shortened(lease), fence: lease.fence });
    const odd = states
      .filter((node) => node.token !== token)
      .map(({ label, outcome, token: other }) => [label, outcome, other]);
    expect(odd).toEqual([
      ["node 2", "held", "t…"],
      ["node 4", "free", undefined],
    ]);
  });
});

describe("quarantineMs", () => {
  const quarantineMs = 10_000;
  // The longest lease and what clocks may disagree by, and a second as Redis tells its uptime in whole ones.
  const untilFree = 10_100 + 1_000;

  test.for([1, 3])("over %i, grants nothing until the nodes are up for as long as the longest lease", async (count) => {
    const { lock, clock, sentOf } = world(count, { quarantineMs, waitMs: 0 });
    const error = await lockError(clock.until(lock.acquire("job")), "unavailable");
    expect(error.nodes).toContainEqual(expect.objectContaining({ outcome: "quarantined" }));
    expect(sentOf("acquire", 0)).toHaveLength(1); // it is no fence that was too low
    await clock.advance(untilFree - 1);
    await lockError(clock.until(lock.acquire("job")), "unavailable");
    await clock.advance(1_000);
    const lease = await clock.until(lock.acquire("job"));
    expect(lease.remaining()).toBeGreaterThan(9_000);
    expect(await clock.until(lock.tryAcquire("job"))).toBeNull();
  });

  test("is what a node's uptime is asked for, and nothing else is", async () => {
    const { lock, clock, sentOf } = world(3);
    const lease = await clock.until(lock.acquire("job"));
    expect(sentOf("acquire", 0)[0]?.command.at(-1)).toBe(lease.fence);
  });

  test("a single node that was started lately is made up for by the others, until they are too few", async () => {
    const env = virtualEnvironment();
    const nodes = [memoryClient({}, env), memoryClient({}, env)];
    const lock = createRedlock([...nodes, memoryClient({}, env)], { quarantineMs, waitMs: 0 }, env);
    await lockError(env.clock.until(lock.acquire("job")), "unavailable");
    await env.clock.advance(untilFree + 1_000);
    const withNew = createRedlock([...nodes, memoryClient({}, env)], { quarantineMs, waitMs: 0 }, env);
    const lease = await env.clock.until(withNew.acquire("job"));
    expect(await env.clock.until(lease.release())).toBe("released");
    const [oldest] = nodes;
    const two = [memoryClient({}, env), memoryClient({}, env), ...(oldest ? [oldest] : [])];
    await lockError(
      env.clock.until(createRedlock(two, { quarantineMs, waitMs: 0 }, env).acquire("job")),
      "unavailable",
    );
  });

  test("refuses a lease that is longer, also by an extend", async () => {
    const { lock, clock } = world(3, { quarantineMs });
    await clock.until(lock.acquire("other", { waitMs: 0 }).catch(() => {}));
    await clock.advance(untilFree + 1_000);
    const refusal = "leaseMs as it must be an integer of ms from 10 to 10000: current value is 10001";
    expect((await lockError(lock.acquire("job", { leaseMs: 10_001 }), "config")).message).toContain(refusal);
    const lease = await clock.until(lock.acquire("job", { leaseMs: 5_000 }));
    expect((await lockError(lease.extend(10_001), "config")).message).toContain(refusal);
    await clock.until(lease.extend(10_000));
    expect(lease.remaining()).toBeGreaterThan(9_000);
  });
});
