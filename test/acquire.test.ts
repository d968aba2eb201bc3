import { describe, expect, test } from "vitest";
import { type Reply, ReplyError } from "../src/command.ts";
import { LockError } from "../src/errors.ts";
import { acquireScript } from "../src/scripts/acquire.ts";
import { countingSignal, oneRedis, tokenOf, verbOf } from "./support/one-redis.ts";
import { lockError } from "./support/rejection.ts";
import { settle } from "./support/virtual-clock.ts";

const key = "lock:{job}";
const reset = () => new Error("ECONNRESET");

describe("acquire() whose request or reply is lost", () => {
  test("a lost request is sent once more at once, with the same token", async () => {
    const { lock, clock, client, verbs } = oneRedis({ waitMs: 0 }, { acquire: [{ lose: "request" }] });
    const lease = await clock.until(lock.acquire("job"));
    expect(verbs()).toEqual(["acquire", "acquire"]);
    expect(client.sent.map(tokenOf)).toEqual([lease.token, lease.token]);
  });

  test("a grant whose reply is lost is adopted: same fence, and what has passed is charged", async () => {
    const { lock, clock, run, verbs } = oneRedis({ leaseMs: 10_000, waitMs: 0 }, { acquire: [{ lose: "reply" }] });
    const began = clock.monotonic;
    const acquiring = lock.acquire("job");
    await settle();
    const granted = { token: await run("GET", key), fence: Number(await run("GET", `${key}:fence`)) };
    const lease = await clock.until(acquiring);
    expect(verbs()).toEqual(["acquire", "acquire"]);
    expect({ token: lease.token, fence: lease.fence }).toEqual(granted);
    const waited = clock.monotonic - began;
    expect(waited).toBeGreaterThan(0);
    expect(lease.remaining()).toBeLessThanOrEqual(10_000 - waited);
    await clock.advance(lease.remaining());
    expect(await run("GET", key)).toBe(lease.token);
  });

  test("a reply that comes after the node's time is up is no grant, and the next try adopts what it was about", async () => {
    const { lock, clock, run } = oneRedis({ leaseMs: 2_000, waitMs: 0 }, { acquire: [{ replyMs: 700 }] });
    const lease = await clock.until(lock.acquire("job"));
    expect(lease.token).toBe(await run("GET", key));
    expect(lease.remaining()).toBeLessThan(2_000 - 500);
  });

  test("tries that land after the roll-back are refused by its tombstone", async () => {
    const { lock, other, clock, run, events } = oneRedis(
      { leaseMs: 2_000, waitMs: 0 },
      { acquire: [{ requestMs: 30_000 }, { requestMs: 60_000 }] },
    );
    const error = await lockError(clock.until(lock.acquire("job")), "unavailable");
    expect(error.nodes).toEqual([{ label: "node 1", outcome: "unknown", reason: "timeout", ms: 500 }]);
    expect(events).toMatchObject([{ type: "acquire-failed" }, { type: "rolled-back", confirmed: true }]);
    await clock.advance(120_000);
    expect(await run("EXISTS", key)).toBe(0);
    await (await other.acquire("job", { waitMs: 0 })).release();
  });

  test("a try that lands before a later one is adopted by it", async () => {
    const faults = { acquire: [{ requestMs: 550 }, { lose: "request" }] } as const;
    const { lock, clock, run } = oneRedis({ leaseMs: 2_000, waitMs: 5_000 }, faults);
    const lease = await clock.until(lock.acquire("job"));
    expect(await run("GET", key)).toBe(lease.token);
    expect(lease.remaining()).toBeLessThan(2_000);
    expect(await lease.release()).toBe("released");
  });

  test("a roll-back is tried three times, the first of them before the error is thrown", async () => {
    const { lock, clock, verbs, events } = oneRedis({ waitMs: 0 }, { always: { lose: "request" } });
    await lockError(clock.until(lock.acquire("job")), "unavailable");
    expect(verbs()).toEqual(["acquire", "acquire", "release"]);
    await clock.advance(60_000);
    expect(verbs()).toEqual(["acquire", "acquire", "release", "release", "release"]);
    expect(events.at(-1)).toMatchObject({ type: "rolled-back", confirmed: false });
    expect(clock.pending).toEqual([]);
  });

  test("its tries come in growing pauses", async () => {
    const sentAt: number[] = [];
    const { lock, clock } = oneRedis({ waitMs: 0 }, (command) => {
      if (verbOf(command) === "release") sentAt.push(clock.monotonic);
      return { fail: reset() };
    });
    await lockError(clock.until(lock.acquire("job")), "unavailable");
    await clock.advance(60_000);
    expect(sentAt.map((at) => at - 1_000)).toEqual([0, 100, 300]);
  });

  test("waitUntil receives the roll-back, which then holds nobody up", async () => {
    const work: Promise<unknown>[] = [];
    const waitUntil = (promise: Promise<unknown>): void => void work.push(promise);
    const faults = {
      acquire: [{ fail: reset() }, { fail: reset(), lose: "reply" }],
      release: [{ requestMs: 100 }],
    } as const;
    const { lock, clock, run } = oneRedis({ waitMs: 0, waitUntil }, faults);
    const began = clock.monotonic;
    await lockError(clock.until(lock.acquire("job")), "unavailable");
    expect(clock.monotonic).toBe(began);
    expect(work).toHaveLength(1);
    expect(await run("EXISTS", key)).toBe(1);
    await clock.until(Promise.all(work));
    expect(await run("EXISTS", key)).toBe(0);
  });

  test("without waitUntil the roll-back has been answered when the error is thrown", async () => {
    const faults = {
      acquire: [{ fail: reset() }, { fail: reset(), lose: "reply" }],
      release: [{ requestMs: 100 }],
    } as const;
    const { lock, clock, run } = oneRedis({ waitMs: 0 }, faults);
    await lockError(clock.until(lock.acquire("job")), "unavailable");
    expect(await run("EXISTS", key)).toBe(0);
  });
});

describe("acquire() of which a copy lands", () => {
  test("while the lease is held, a copy changes neither fence nor expiry", async () => {
    const { lock, clock, run } = oneRedis({ leaseMs: 10_000 }, { acquire: [{ againMs: 4_000 }] });
    const lease = await lock.acquire("job");
    await clock.advance(5_000);
    expect(await run("PTTL", key)).toBe(5_000);
    expect(await run("GET", `${key}:fence`)).toBe(String(lease.fence));
  });

  test("after an unanswered try, a copy that lands after the release is refused", async () => {
    const { lock, clock, run } = oneRedis({}, { acquire: [{ fail: reset(), lose: "reply", againMs: 20_000 }] });
    const lease = await lock.acquire("job");
    expect(await lease.release()).toBe("released");
    await clock.advance(30_000);
    expect(await run("EXISTS", key)).toBe(0);
  });

  test("after answered tries alone, a hidden copy blocks the name for one lease, and nobody believes in it", async () => {
    const { lock, other, clock, run } = oneRedis({ leaseMs: 10_000 }, { acquire: [{ againMs: 5_000 }] });
    const lease = await lock.acquire("job");
    expect(await lease.release()).toBe("released");
    await clock.advance(6_000);
    expect(await run("GET", key)).toBe(lease.token);
    expect(lease.remaining()).toBe(0);
    const next = await clock.until(other.acquire("job"));
    expect(next.fence).toBeGreaterThan(lease.fence);
  });
});

describe("acquire() whose reply makes no sense", () => {
  const odd: Reply[] = [
    null,
    "OK",
    1,
    [],
    [1],
    [1, 5],
    [1, 5, 6, 7],
    [2, 5, 6],
    ["yes", 5, 6],
    [1, 1.5, 6],
    [1, 5, -1],
  ];
  test.for(odd.map((answer) => [answer]))("%j is neither a grant nor contention", async ([answer]) => {
    const { lock, clock, run } = oneRedis({ waitMs: 0 }, { acquire: [{ answer }, { answer }] });
    const error = await lockError(clock.until(lock.acquire("job")), "unavailable");
    expect(error.message).toContain("odd reply");
    expect(await run("EXISTS", key)).toBe(0);
  });

  test.for(odd.map((answer) => [answer]))(
    "%j makes tryAcquire() throw rather than say that another holds it",
    async ([answer]) => {
      const { lock, clock } = oneRedis({}, { acquire: [{ answer }, { answer }] });
      await lockError(clock.until(lock.tryAcquire("job")), "unavailable");
    },
  );

  test("digits in strings are taken for numbers, and null for 0", async () => {
    const faults = { acquire: [{ answer: [null, "5", "700"] }, { answer: ["1", "6", "10000"] }] };
    const { lock, clock, events } = oneRedis({}, faults);
    const lease = await clock.until(lock.acquire("job"));
    expect(lease.fence).toBe(6);
    expect(events).toMatchObject([
      { type: "contended", retryAfterMs: 700 },
      { type: "acquired", fence: 6 },
    ]);
  });

  test("a fence that would not be exact is refused and rolled back", async () => {
    const { lock, clock, run } = oneRedis();
    await run("SET", `${key}:fence`, 2 ** 52);
    const error = await lockError(clock.until(lock.acquire("job")), "config");
    expect(error.message).toBe('Cannot acquire "job" as its fence is above 2 ** 52');
    expect(await run("EXISTS", key)).toBe(0);
  });

  test("the largest exact fence is still granted", async () => {
    const { lock, run } = oneRedis();
    await run("SET", `${key}:fence`, 2 ** 52 - 1);
    expect((await lock.acquire("job")).fence).toBe(2 ** 52);
  });
});

describe("acquire() that Redis answers with an error", () => {
  const transient = [
    "LOADING",
    "READONLY",
    "OOM",
    "MASTERDOWN",
    "CLUSTERDOWN",
    "TRYAGAIN",
    "BUSY",
    "MISCONF",
    "NOREPLICAS",
  ];
  test.for(transient)("%s is tried again within waitMs", async (code) => {
    const fail = new ReplyError(`${code} not now`);
    const { lock, clock, verbs } = oneRedis({ waitMs: 2_000 }, { acquire: [{ fail }, { fail }, { fail }] });
    const began = clock.monotonic;
    await clock.until(lock.acquire("job"));
    expect(verbs()).toEqual(["acquire", "acquire", "acquire", "acquire"]);
    expect(clock.monotonic - began).toBeLessThan(2_000);
  });

  test.for(transient)("%s is not tried again with waitMs 0, and is rolled back since it may have run", async (code) => {
    const fail = new ReplyError(`${code} not now`);
    const { lock, clock, verbs, run } = oneRedis({ waitMs: 0 }, { acquire: [{ fail, lose: "reply" }] });
    const error = await lockError(clock.until(lock.acquire("job")), "unavailable");
    expect(error.cause).toMatchObject({ name: "ReplyError", code, message: `${code} not now` });
    expect(verbs()).toEqual(["acquire", "release"]);
    expect(await run("EXISTS", key)).toBe(0);
  });

  test.for(["WRONGPASS", "NOAUTH", "NOPERM"])("%s is a config error after one request", async (code) => {
    const { lock, clock, verbs } = oneRedis({ waitMs: 10_000 }, { always: { fail: new ReplyError(`${code} no`) } });
    const began = clock.monotonic;
    const error = await lockError(clock.until(lock.acquire("job")), "config");
    expect(error).toMatchObject({ lockName: "job", cause: { name: "ReplyError", code } });
    expect(verbs()).toEqual(["acquire"]);
    expect(clock.monotonic).toBe(began);
  });

  test("a quota that is used up is unavailable after one request", async () => {
    const fail = new ReplyError("ERR max daily request limit exceeded. Limit: 10000, Usage: 10000.");
    const { lock, clock, verbs } = oneRedis({ waitMs: 10_000 }, { always: { fail } });
    await lockError(clock.until(lock.acquire("job")), "unavailable");
    expect(verbs()).toEqual(["acquire"]);
  });

  test("the error of the last try wins over contention before it, and says what every node answered", async () => {
    const fail = new ReplyError("LOADING Redis is loading the dataset in memory");
    const { lock, other, clock } = oneRedis({ waitMs: 500 }, { acquire: [undefined], always: { fail } });
    await other.acquire("job");
    const error = await lockError(clock.until(lock.acquire("job")), "unavailable");
    expect(error.message).toContain("node 1: LOADING Redis is loading the dataset in memory");
    expect(error.nodes).toEqual([
      { label: "node 1", outcome: "no-vote", reason: "LOADING Redis is loading the dataset in memory", ms: 0 },
    ]);
  });

  test.for([
    ["an error of Redis", new ReplyError("LOADING Redis is loading")],
    ["a refused connection", new Error("connect ECONNREFUSED")],
  ] as const)("the last try has time enough to hear %s", async ([, fail]) => {
    const { lock, clock } = oneRedis({ waitMs: 300 }, { always: { requestMs: 20, fail } });
    const error = await lockError(clock.until(lock.acquire("job")), "unavailable");
    expect(error.message).toContain(fail.message);
  });

  test("a client's own config error is thrown as it is", async () => {
    const own = new LockError("config", 'Cannot reach Redis over REST as "url" is missing');
    const { lock, clock, verbs } = oneRedis({}, { always: { fail: own } });
    expect(await lockError(clock.until(lock.acquire("job")), "config")).toBe(own);
    expect(verbs()).toEqual(["acquire"]);
  });
});

describe("acquire() of a name that another holds", () => {
  test("waitMs 0 asks once and is contended, with what is left of the holder's lease", async () => {
    const { lock, other, clock, verbs } = oneRedis();
    await other.acquire("job", { leaseMs: 5_000 });
    await clock.advance(1_000);
    const began = clock.monotonic;
    const error = await lockError(lock.acquire("job", { waitMs: 0 }), "contended");
    expect(error).toMatchObject({
      message: 'Cannot acquire "job" as another holds it',
      lockName: "job",
      retryAfterMs: 4_000,
      nodes: [{ label: "node 1", outcome: "held" }],
    });
    expect(verbs()).toEqual(["acquire"]);
    expect(clock.monotonic).toBe(began);
  });

  test("when waitMs is over it is a timeout with contention as its cause, never late", async () => {
    const { lock, other, clock } = oneRedis({}, { always: { requestMs: 20, replyMs: 20 } });
    await other.acquire("job", { leaseMs: 60_000 });
    const began = clock.monotonic;
    const error = await lockError(clock.until(lock.acquire("job", { waitMs: 3_000 })), "timeout");
    expect(error.message).toBe('Cannot acquire "job" as another holds it after 3000 ms');
    expect(error.cause).toMatchObject({ code: "contended", lockName: "job" });
    expect(clock.monotonic - began).toBeLessThanOrEqual(3_000);
  });

  test("a release shortly before the end of waitMs is not missed", async () => {
    const { lock, other, clock } = oneRedis({}, { always: { requestMs: 5, replyMs: 5 } });
    const holder = await other.acquire("job", { leaseMs: 60_000 });
    const waiting = lock.acquire("job", { waitMs: 3_000 });
    await clock.advance(2_950);
    await holder.release();
    expect((await clock.until(waiting)).fence).toBeGreaterThan(holder.fence);
  });

  test("a slow answer to the last poll, as after a pause of this process, is still contention", async () => {
    const world = oneRedis({ waitMs: 3_000 }, () => ({ replyMs: world.clock.monotonic < 3_500 ? 2 : 150 }));
    const { lock, other, clock, verbs } = world;
    await other.acquire("job", { leaseMs: 60_000 });
    await lockError(clock.until(lock.acquire("job")), "timeout");
    expect(verbs()).not.toContain("release");
  });

  test("the holder's expiry is met within 6 ms where it comes before the next poll would", async () => {
    const { lock, other, clock } = oneRedis();
    await other.acquire("job", { leaseMs: 60 });
    const began = clock.monotonic;
    await clock.until(lock.acquire("job"));
    expect(clock.monotonic - began).toBeLessThanOrEqual(66);
  });

  test("ten seconds of waiting take at most 20 requests, whatever chance says", async () => {
    for (let seed = 1; seed <= 30; seed += 1) {
      const { lock, other, clock, client, env } = oneRedis();
      env.random.fill(new Uint8Array(seed * 16));
      await other.acquire("job", { leaseMs: 60_000 });
      await lockError(clock.until(lock.acquire("job", { waitMs: 10_000 })), "timeout");
      expect(client.sent.length).toBeLessThanOrEqual(20);
    }
  });

  test("ten seconds take at most 20 requests even against holders of many short leases, which may all be about to end", async () => {
    for (let seed = 1; seed <= 100; seed += 1) {
      const { lock, other, clock, client, env } = oneRedis();
      env.random.fill(new Uint8Array(seed * 16));
      let held = await other.acquire("job", { leaseMs: 200 });
      const waiting = lockError(lock.acquire("job", { waitMs: 10_000 }), "timeout");
      for (let passed = 0; passed < 10_200; passed += 150) {
        await clock.advance(150);
        await held.release();
        held = await other.acquire("job", { leaseMs: 200 });
      }
      await waiting;
      expect(client.sent.length).toBeLessThanOrEqual(20);
    }
  });

  test("ten seconds take at most 20 requests, roll-backs not counted, where Redis cannot be reached", async () => {
    for (let seed = 1; seed <= 100; seed += 1) {
      const { lock, clock, client, env } = oneRedis({}, () => ({ fail: new Error("ECONNREFUSED") }));
      env.random.fill(new Uint8Array(seed * 16));
      await lockError(clock.until(lock.acquire("job", { waitMs: 10_000 })), "unavailable");
      const acquires = client.sent.filter(([, source]) => String(source).endsWith(acquireScript.source));
      expect(acquires.length).toBeLessThanOrEqual(20);
    }
  });

  test("no wait is shorter than 20 ms, so that nobody polls in a loop", async () => {
    const sentAt: number[] = [];
    const { lock, other, clock } = oneRedis({}, () => {
      sentAt.push(clock.monotonic);
      return undefined;
    });
    await other.acquire("job", { leaseMs: 60_000 });
    await lockError(clock.until(lock.acquire("job")), "timeout");
    const pauses = sentAt.slice(1, -1).map((at, index) => at - (sentAt[index] ?? 0));
    expect(Math.min(...pauses)).toBeGreaterThanOrEqual(20);
    expect(Math.max(...pauses)).toBeLessThanOrEqual(1_500);
  });

  test.for([
    ["a string of someone else", ["SET", key, "theirs"]],
    ["a hash", ["HSET", key, "field", "value"]],
    ["a list", ["RPUSH", key, "item"]],
  ] as const)("%s under the lock's key is contention without an end, and stays as it is", async ([, command]) => {
    const { lock, run, events } = oneRedis();
    await run(...command);
    const error = await lockError(lock.acquire("job", { waitMs: 0 }), "contended");
    expect(error.retryAfterMs).toBeUndefined();
    expect(events).toMatchObject([{ type: "contended", retryAfterMs: undefined }, { type: "acquire-failed" }]);
    expect(await run("TYPE", key)).toBe({ SET: "string", HSET: "hash", RPUSH: "list" }[command[0]]);
    expect(await run("PTTL", key)).toBe(-1);
  });
});

describe("acquire() with a signal", () => {
  const reason = new Error("enough");

  test("one that has aborted before sends nothing", async () => {
    const { lock, client } = oneRedis();
    const error = await lockError(lock.acquire("job", { signal: AbortSignal.abort(reason) }), "aborted");
    expect(error).toMatchObject({ cause: reason, lockName: "job" });
    expect(client.sent).toEqual([]);
  });

  test("an abort while the first request is under way ends it at once, and rolls it back", async () => {
    const { lock, clock, run, verbs } = oneRedis({}, { acquire: [{ requestMs: 100 }] });
    const { controller, listeners } = countingSignal();
    const acquiring = lock.acquire("job", { signal: controller.signal });
    await clock.advance(50);
    const began = clock.monotonic;
    controller.abort(reason);
    expect((await lockError(clock.until(acquiring), "aborted")).cause).toBe(reason);
    expect(clock.monotonic).toBe(began);
    expect(verbs()).toEqual(["acquire", "release"]);
    await clock.advance(1_000);
    expect(await run("EXISTS", key)).toBe(0);
    expect(listeners()).toBe(0);
    expect(clock.pending).toEqual([]);
  });

  test("an abort while the reply is under way frees what was granted", async () => {
    const { lock, clock, run } = oneRedis({}, { acquire: [{ replyMs: 100 }] });
    const { controller } = countingSignal();
    const acquiring = lock.acquire("job", { signal: controller.signal });
    await clock.advance(50);
    expect(await run("EXISTS", key)).toBe(1);
    controller.abort(reason);
    await lockError(clock.until(acquiring), "aborted");
    expect(await run("EXISTS", key)).toBe(0);
  });

  test("an abort between two polls ends the waiting at once, and sends nothing more", async () => {
    const { lock, other, clock, client, run } = oneRedis();
    const holder = await other.acquire("job", { leaseMs: 60_000 });
    const { controller, listeners } = countingSignal();
    const acquiring = lock.acquire("job", { signal: controller.signal });
    await clock.advance(500);
    const sent = client.sent.length;
    controller.abort(reason);
    await lockError(acquiring, "aborted");
    expect(clock.pending).toEqual([]);
    await clock.advance(10_000);
    expect(client.sent).toHaveLength(sent);
    expect(listeners()).toBe(0);
    expect(await run("GET", key)).toBe(holder.token);
  });

  test("an abort after an unknown outcome, between two tries, still rolls it back", async () => {
    const lost = { fail: reset(), lose: "reply" } as const;
    const faults = { acquire: [{ fail: reset() }, lost], release: [{ requestMs: 5 }] };
    const { lock, clock, run, verbs } = oneRedis({}, faults);
    const { controller } = countingSignal();
    const acquiring = lock.acquire("job", { signal: controller.signal });
    await settle();
    expect(await run("EXISTS", key)).toBe(1);
    controller.abort(reason);
    await lockError(clock.until(acquiring), "aborted");
    expect(verbs()).toEqual(["acquire", "acquire", "release"]);
    expect(await run("EXISTS", key)).toBe(0);
  });

  test("an abort after the grant says nothing about the lease", async () => {
    const { lock, clock } = oneRedis();
    const { controller, listeners } = countingSignal();
    const lease = await lock.acquire("job", { signal: controller.signal });
    expect(listeners()).toBe(0);
    controller.abort(reason);
    await clock.advance(1_000);
    expect(lease.signal.aborted).toBe(false);
    expect(lease.remaining()).toBeGreaterThan(0);
    expect(await lease.release()).toBe("released");
  });

  test("a signal that never aborts keeps no listener, whatever the outcome", async () => {
    const { controller, listeners } = countingSignal();
    const { signal } = controller;
    const failing = oneRedis({ leaseMs: 1_000, waitMs: 3_000 }, { always: { lose: "request" } });
    await lockError(failing.clock.until(failing.lock.acquire("job", { signal })), "unavailable");
    const { lock, other, clock } = oneRedis({ waitMs: 3_000 });
    await other.acquire("job", { leaseMs: 60_000 });
    await lockError(clock.until(lock.acquire("job", { signal })), "timeout");
    await lock.acquire("another job", { signal });
    expect(await lock.tryAcquire("job", { signal })).toBeNull();
    expect(listeners()).toBe(0);
  });
});

describe("acquire() of a lease that is too short for the way", () => {
  test("it is rolled back, tried again within waitMs, and refused with the numbers", async () => {
    const { lock, clock, run, events } = oneRedis(
      { leaseMs: 100, waitMs: 1_000 },
      { always: { requestMs: 40, replyMs: 40 } },
    );
    const error = await lockError(clock.until(lock.acquire("job")), "config");
    expect(error.message).toMatch(
      /^Cannot acquire "job" as leaseMs 100 is too short for a round trip of 80 ms: use \d+ or more$/,
    );
    const least = Number(/use (\d+)/.exec(error.message)?.[1]);
    expect(least).toBeGreaterThan(240);
    await clock.advance(1_000);
    expect(await run("EXISTS", key)).toBe(0);
    expect(events.filter(({ type }) => type === "rolled-back").length).toBeGreaterThan(1);
    expect(events.filter(({ type }) => type === "acquired")).toEqual([]);
    const lease = await clock.until(lock.acquire("job", { leaseMs: least }));
    expect(lease.remaining()).toBeGreaterThan(least / 10);
  });

  test("each try has a token of its own, since a rolled-back token is dead", async () => {
    const { lock, clock, client } = oneRedis(
      { leaseMs: 100, waitMs: 1_000 },
      { always: { requestMs: 40, replyMs: 40 } },
    );
    await lockError(clock.until(lock.acquire("job")), "config");
    const tokens = client.sent.filter((command) => verbOf(command) === "acquire").map(tokenOf);
    expect(tokens.length).toBeGreaterThan(1);
    expect(new Set(tokens).size).toBe(tokens.length);
  });

  test("a single slow answer is forgiven within waitMs", async () => {
    const { lock, clock } = oneRedis({ leaseMs: 100 }, { acquire: [{ replyMs: 85 }] });
    const lease = await clock.until(lock.acquire("job"));
    expect(lease.remaining()).toBeGreaterThan(50);
  });

  test("the token of the next try leaves no tombstone for what befell the one before it", async () => {
    const { lock, clock, run } = oneRedis({ leaseMs: 100 }, { acquire: [{ fail: reset() }, { replyMs: 85 }] });
    const lease = await clock.until(lock.acquire("job"));
    expect(await lease.release()).toBe("released");
    expect(await run("EXISTS", `${key}:void:${lease.token}`)).toBe(0);
  });

  test("10 ms are enough where the way is short", async () => {
    const { lock, run } = oneRedis({ leaseMs: 10 });
    const lease = await lock.acquire("job");
    expect(lease.remaining()).toBe(7);
    expect(await run("PTTL", key)).toBe(10);
  });
});

test("acquire() leaves no timer but that of the lease's deadline, which keeps no process alive", async () => {
  const { lock, clock } = oneRedis();
  const lease = await lock.acquire("job");
  expect(clock.pending).toEqual([{ inMs: lease.remaining(), keepsAlive: false }]);
  await lease.release();
  expect(clock.pending).toEqual([]);
});
