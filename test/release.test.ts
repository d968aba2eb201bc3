import { describe, expect, test } from "vitest";
import { ReplyError } from "../src/command.ts";
import { oneRedis } from "./support/one-redis.ts";
import { lockError } from "./support/rejection.ts";
import { settle } from "./support/virtual-clock.ts";

const key = "lock:{job}";
const tombstone = (token: string): string => `${key}:void:${token}`;

describe("release()", () => {
  test("frees the lock with one request, and leaves nothing but the fence", async () => {
    const { lock, run, verbs, events } = oneRedis();
    const lease = await lock.acquire("job");
    expect(await lease.release()).toBe("released");
    expect(verbs()).toEqual(["acquire", "release"]);
    expect(await run("DBSIZE")).toBe(1);
    expect(await run("GET", `${key}:fence`)).toBe(String(lease.fence));
    expect(events.at(-1)).toEqual({
      type: "released",
      outcome: "released",
      name: "job",
      fence: lease.fence,
      requests: 1,
      durationMs: 0,
      nodes: [{ label: "node 1", outcome: "deleted", ms: 0 }],
    });
  });

  test("is over for its holder from the call on, before any answer, and its signal never aborts", async () => {
    const { lock, clock } = oneRedis({ leaseMs: 1_000 }, { release: [{ requestMs: 100 }] });
    const lease = await lock.acquire("job");
    const releasing = lease.release();
    expect(lease.remaining()).toBe(0);
    expect(() => lease.assertHeld()).toThrow(
      expect.objectContaining({
        code: "lost",
        lostBy: "released",
        message: expect.stringContaining("no longer held: released"),
      }),
    );
    expect((await lockError(lease.extend(), "lost")).lostBy).toBe("released");
    expect(await clock.until(releasing)).toBe("released");
    await clock.advance(100_000);
    expect(lease.signal.aborted).toBe(false);
    expect(lease.remaining()).toBe(0);
  });

  test("once settled, says already-released and sends nothing", async () => {
    const { lock, verbs, events } = oneRedis();
    const lease = await lock.acquire("job");
    await lease.release();
    expect(await lease.release()).toBe("already-released");
    expect(await lease.release()).toBe("already-released");
    expect(verbs()).toEqual(["acquire", "release"]);
    expect(events.filter(({ type }) => type === "released")).toHaveLength(1);
  });

  test("calls at the same time share one request and its outcome", async () => {
    const { lock, clock, verbs } = oneRedis({}, { release: [{ requestMs: 100 }] });
    const lease = await lock.acquire("job");
    const outcomes = clock.until(Promise.all([lease.release(), lease.release(), lease.release()]));
    expect(await outcomes).toEqual(["released", "released", "released"]);
    expect(verbs()).toEqual(["acquire", "release"]);
    expect(await lease.release()).toBe("already-released");
  });

  test.for([
    ["another's token", ["SET", key, "theirs"]],
    ["a hash", ["HSET", key, "field", "value"]],
  ] as const)("where %s stands by now says stolen, and leaves it alone", async ([, command]) => {
    const { lock, run, events } = oneRedis();
    const lease = await lock.acquire("job");
    await run("DEL", key);
    await run(...command);
    expect(await lease.release()).toBe("stolen");
    expect(await run("EXISTS", key)).toBe(1);
    expect(events.at(-1)).toMatchObject({ type: "released", outcome: "stolen", nodes: [{ outcome: "foreign" }] });
  });

  test("of a key that is gone while the lease should last says expired", async () => {
    const { lock, run } = oneRedis();
    const lease = await lock.acquire("job");
    await run("DEL", key);
    expect(await lease.release()).toBe("expired");
  });

  test("in the few ms between its own deadline and that of the key still frees it", async () => {
    const { lock, clock, run } = oneRedis({ leaseMs: 10_000 });
    const lease = await lock.acquire("job");
    await clock.advance(9_950);
    expect(lease.remaining()).toBe(0);
    expect(await lease.release()).toBe("released");
    expect(await run("EXISTS", key)).toBe(0);
  });

  test("at the deadline itself the signal aborts first: what is over was lost, not let go", async () => {
    const { lock, clock, events } = oneRedis({ leaseMs: 10_000 });
    const lease = await lock.acquire("job");
    clock.freeze(9_950);
    const { signal } = lease;
    await lease.release();
    expect(signal.reason).toMatchObject({ lostBy: "expired" });
    expect(events.map(({ type }) => type)).toEqual(["acquired", "lost", "released"]);
  });
});

describe("release() without a definite answer", () => {
  test.for([
    [{ lose: "request" }, "timeout"],
    [{ lose: "reply" }, "timeout"],
    [{ fail: new Error("ECONNRESET") }, "ECONNRESET"],
    [{ fail: new ReplyError("READONLY You can't write against a read only replica.") }, "READONLY"],
    [{ fail: new ReplyError("MISCONF Redis is configured to save RDB snapshots") }, "MISCONF"],
    [{ answer: "OK" }, "odd reply"],
    [{ answer: [1] }, "odd reply"],
    [{ answer: 2 }, "odd reply"],
  ] as const)(
    "%o is unavailable, never a guess; the lease is over, and a second call settles it",
    async ([fault, reason]) => {
      const { lock, clock, run, verbs, events } = oneRedis({}, { release: [fault] });
      const lease = await lock.acquire("job");
      const error = await lockError(clock.until(lease.release()), "unavailable");
      expect(error.message).toMatch(/^Cannot release the lease on "job" as too few definite answers: node 1: /);
      expect(error.message).toContain(reason);
      expect(error.lockName).toBe("job");
      expect(events.at(-1)).toMatchObject({
        type: "release-failed",
        code: "unavailable",
        fence: lease.fence,
        requests: 1,
      });
      expect(lease.remaining()).toBe(0);
      expect(lease.signal.aborted).toBe(false);
      await lockError(lease.extend(), "lost");
      expect(await clock.until(lease.release())).toBe("released");
      expect(await run("EXISTS", key)).toBe(0);
      expect(await lease.release()).toBe("already-released");
      expect(verbs()).toEqual(["acquire", "release", "release"]);
    },
  );

  test("a key that is gone after an unanswered try was freed by it, if the lease was held then", async () => {
    const { lock, other, clock } = oneRedis({}, { release: [{ lose: "reply" }] });
    const lease = await lock.acquire("job");
    await lockError(clock.until(lease.release()), "unavailable");
    await other.acquire("job");
    expect(await lease.release()).toBe("released");
  });

  test("a key that is gone after several unanswered tries was released", async () => {
    const { lock, other, clock } = oneRedis({}, { release: [{ lose: "reply" }, { lose: "request" }] });
    const lease = await lock.acquire("job");
    await lockError(clock.until(lease.release()), "unavailable");
    await lockError(clock.until(lease.release()), "unavailable");
    await other.acquire("job");
    expect(await lease.release()).toBe("released");
  });

  test("a key that is gone after an unanswered try was not freed by it, if the lease was over before", async () => {
    const { lock, other, clock } = oneRedis({ leaseMs: 1_000 }, { release: [{ lose: "reply" }] });
    const lease = await lock.acquire("job");
    await clock.advance(1_001);
    await lockError(clock.until(lease.release()), "unavailable");
    await other.acquire("job");
    expect(await lease.release()).toBe("stolen");
  });

  test("refused credentials are a config error with the server's code", async () => {
    const { lock, clock, run, events } = oneRedis({}, { release: [{ fail: new ReplyError("NOPERM no permissions") }] });
    const lease = await lock.acquire("job");
    const error = await lockError(clock.until(lease.release()), "config");
    expect(error.cause).toMatchObject({ name: "ReplyError", code: "NOPERM" });
    expect(events.at(-1)).toMatchObject({ type: "release-failed", code: "config" });
    expect(await run("EXISTS", key)).toBe(1);
    expect(await lease.release()).toBe("released");
  });

  test("calls at the same time share the error, and a later one tries again", async () => {
    const { lock, clock, verbs } = oneRedis({}, { release: [{ requestMs: 10, fail: new Error("ECONNRESET") }] });
    const lease = await lock.acquire("job");
    const [first, second] = [lease.release(), lease.release()];
    const errors = [lockError(first, "unavailable"), lockError(second, "unavailable")];
    const [one, two] = await clock.until(Promise.all(errors));
    expect(one).toBe(two);
    expect(verbs()).toEqual(["acquire", "release"]);
    expect(await lease.release()).toBe("released");
  });

  test("the lock ends with its lease at the latest, as nothing renews it any more", async () => {
    const { lock, clock, run } = oneRedis({ leaseMs: 1_000 }, { release: [{ lose: "request" }] });
    const lease = await lock.acquire("job");
    await lockError(clock.until(lease.release()), "unavailable");
    await clock.advance(1_001);
    expect(await run("EXISTS", key)).toBe(0);
    expect(clock.pending).toEqual([]);
  });

  test("an unanswered release that lands late does not touch the next holder", async () => {
    const { lock, other, clock, run } = oneRedis({ leaseMs: 1_000 }, { release: [{ requestMs: 5_000 }] });
    const lease = await lock.acquire("job");
    await lockError(clock.until(lease.release()), "unavailable");
    const next = await clock.until(other.acquire("job", { leaseMs: 60_000 }));
    await clock.advance(10_000);
    expect(await run("GET", key)).toBe(next.token);
  });
});

describe("tombstones", () => {
  test("are written by a release only if some acquire of the token was not answered", async () => {
    const { lock, run } = oneRedis({}, { acquire: [{ fail: new Error("ECONNRESET"), lose: "reply" }] });
    const uncertain = await lock.acquire("job");
    await uncertain.release();
    expect(await run("PTTL", tombstone(uncertain.token))).toBe(120_000);
    const certain = await lock.acquire("job");
    await certain.release();
    expect(await run("EXISTS", tombstone(certain.token))).toBe(0);
  });

  test("outlast two leases where those are longer than two minutes", async () => {
    const world = oneRedis({ leaseMs: 600_000 }, { acquire: [{ fail: new Error("ECONNRESET"), lose: "reply" }] });
    const lease = await world.lock.acquire("job");
    await lease.release();
    expect(await world.run("PTTL", tombstone(lease.token))).toBe(1_200_000);
  });
});

describe("waitUntil", () => {
  test("receives a release that the caller does not await, and never sees it reject", async () => {
    const work: Promise<unknown>[] = [];
    const waitUntil = (promise: Promise<unknown>): void => void work.push(promise);
    const faults = { release: [{ requestMs: 100 }, { fail: new Error("ECONNRESET") }] };
    const { lock, clock, run } = oneRedis({ waitUntil }, faults);
    const [first, second] = [await lock.acquire("job"), await lock.acquire("another job")];
    void first.release();
    second.release().catch(() => {});
    await settle();
    expect(work).toHaveLength(2);
    await clock.until(Promise.all(work));
    expect(await run("EXISTS", key)).toBe(0);
  });

  test("of a call wins over that of the lock", async () => {
    const seen: string[] = [];
    const { lock } = oneRedis({ waitUntil: () => void seen.push("lock") });
    await (await lock.acquire("job", { waitUntil: () => void seen.push("call") })).release();
    await (await lock.acquire("job")).release();
    expect(seen).toEqual(["call", "lock"]);
  });
});
