import { expect, test } from "vitest";
import { lockKeys } from "../../src/keys.ts";
import type { AcquireReply } from "../../src/scripts/acquire.ts";
import { proposeScript } from "../../src/scripts/propose.ts";
import { describeRedis } from "../support/redis.ts";
import { leaseMs, useRedis } from "./server.ts";

const dayUs = 86_400_000_000;
const weekMs = 604_800_000;
const { lock, fence: counter, tombstone } = lockKeys("lock", "a");

describeRedis("acquire on Redis", () => {
  const redis = useRedis();

  test("acquire grants a free lock for the whole lease, with the server's clock as its fence", async () => {
    const before = await redis.time();
    const reply = await redis.acquire("a", "t1");
    expect(reply).toEqual({ type: "granted", fence: expect.any(Number), remainingMs: leaseMs });
    expect(reply.fence).toBeGreaterThan(before);
    expect(reply.fence).toBeLessThan(await redis.time());
    expect(await redis.execute("GET", lock)).toBe("t1");
    expect(await redis.execute("GET", counter)).toBe(String(reply.fence));
    expect(await redis.execute("PTTL", lock)).toSatisfy(upTo(leaseMs));
    expect(await redis.execute("PTTL", counter)).toSatisfy(upTo(weekMs));
  });

  test("acquire finds its own lock again with the same fence, and changes nothing", async () => {
    const { fence } = await redis.acquire("a", "t1");
    const again = await redis.acquire("a", "t1", "", 10 * leaseMs);
    expect(again).toMatchObject({ type: "granted", fence });
    expect(again.remainingMs).toSatisfy(upTo(leaseMs));
    expect(await redis.execute("PTTL", lock)).toSatisfy(upTo(leaseMs));
  });

  test("acquire finds a lock that another token holds, and what is left of its lease", async () => {
    const { fence } = await redis.acquire("a", "t1");
    const reply = await redis.acquire("a", "t2");
    expect(reply).toMatchObject({ type: "held", fence });
    expect(reply.remainingMs).toSatisfy(upTo(leaseMs));
    expect(await redis.execute("GET", lock)).toBe("t1");
  });

  test("acquire says -1 for a lock without an expiry, and takes none of its own for granted", async () => {
    await redis.execute("SET", lock, "t1");
    expect(await redis.acquire("a", "t2")).toEqual({ type: "held", fence: 0, remainingMs: -1 });
    await expect(redis.acquire("a", "t1")).rejects.toThrow("Cannot decode the reply [1,0,-1]");
  });

  test("acquire refuses a token that has been rolled back", async () => {
    const { fence } = await redis.acquire("a", "t1");
    await redis.release("a", "t1", leaseMs);
    expect(await redis.acquire("a", "t1")).toEqual({ type: "cancelled", fence, remainingMs: 0 });
    expect(await redis.execute("EXISTS", lock)).toBe(0);
    expect(await redis.acquire("a", "t2")).toMatchObject({ type: "granted" });
  });

  test("acquire never overwrites a key of another type", async () => {
    await redis.execute("HSET", lock, "field", "value");
    expect(await redis.acquire("a", "t1")).toMatchObject({ type: "held", remainingMs: -1 });
    expect(await redis.execute("HGET", lock, "field")).toBe("value");
  });

  test("acquire takes a proposal above the counter, and refuses one that is not", async () => {
    const { fence } = await redis.acquire("a", "t1");
    await redis.release("a", "t1");
    expect(await redis.acquire("a", "t2", fence)).toEqual({ type: "fence-too-low", fence, remainingMs: 0 });
    expect(await redis.acquire("a", "t2", fence - 1)).toMatchObject({ type: "fence-too-low" });
    expect(await redis.execute("EXISTS", lock)).toBe(0);
    expect(await redis.acquire("a", "t2", fence + 1)).toEqual({
      type: "granted",
      fence: fence + 1,
      remainingMs: leaseMs,
    });
  });

  test("acquire without a counter refuses a proposal that is older than a lease, of which a day counts", async () => {
    const now = await redis.time();
    expect(await redis.acquire("a", "t1", now - 1_000 * leaseMs)).toMatchObject({ type: "fence-too-low" });
    expect(await redis.acquire("a", "t1", now - dayUs, 30 * 86_400_000)).toMatchObject({ type: "fence-too-low" });
    expect(await redis.acquire("a", "t1", now - dayUs / 2, 30 * 86_400_000)).toMatchObject({ type: "granted" });
  });

  test("acquire refuses a proposal that is more than a day ahead, and says what the time is", async () => {
    const now = await redis.time();
    const reply = await redis.acquire("a", "t1", now + 2 * dayUs);
    expect(reply).toMatchObject({ type: "fence-in-future", remainingMs: 0 });
    expect(reply.fence).toBeGreaterThan(now);
    expect(reply.fence).toBeLessThan(await redis.time());
    expect(await redis.execute("DBSIZE")).toBe(0);
  });

  test("acquire on a server that was started too lately for the quarantine is refused, and writes nothing", async () => {
    const { lock, fence, tombstone } = lockKeys("lock", "a");
    const propose = async (leastUptimeMs: number): Promise<AcquireReply> =>
      redis.run(proposeScript, [lock, fence, tombstone("t1")], ["t1", leaseMs, await redis.time(), leastUptimeMs]);
    const dayMs = dayUs / 1_000;
    const { type, remainingMs } = await propose(dayMs);
    expect(type).toBe("quarantined");
    expect(remainingMs).toBeGreaterThan(dayMs - 600_000);
    expect(remainingMs).toBeLessThanOrEqual(dayMs);
    expect(await redis.execute("DBSIZE")).toBe(0);
    expect(await propose(0)).toMatchObject({ type: "granted" });
    expect(await propose(dayMs)).toMatchObject({ type: "granted" }); // its own already
  });

  test("the counter outlives a proposal that ran ahead by 7 days, and the next fence is above it", async () => {
    const ahead = (await redis.time()) + dayUs / 2;
    await redis.acquire("a", "t1", ahead);
    expect(await redis.execute("PTTL", counter)).toSatisfy(
      (ms) => upTo(weekMs + 43_200_000)(ms) && Number(ms) > weekMs,
    );
    await redis.release("a", "t1");
    expect(await redis.acquire("a", "t2")).toMatchObject({ type: "granted", fence: ahead + 1 });
  });

  test("fences up to 2^52 keep all their digits", async () => {
    await redis.execute("SET", counter, String(2 ** 52 - 1));
    expect(await redis.acquire("a", "t1")).toMatchObject({ type: "granted", fence: 2 ** 52 });
    expect(await redis.execute("GET", counter)).toBe(String(2 ** 52));
  });
});

describeRedis("release on Redis", () => {
  const redis = useRedis();

  test("release deletes the lock of its own token alone", async () => {
    await redis.acquire("a", "t1");
    expect(await redis.release("a", "t2")).toEqual({ type: "foreign" });
    expect(await redis.execute("GET", lock)).toBe("t1");
    expect(await redis.release("a", "t1")).toEqual({ type: "deleted" });
    expect(await redis.release("a", "t1")).toEqual({ type: "absent" });
    expect(await redis.execute("EXISTS", lock, tombstone("t1"), tombstone("t2"))).toBe(0);
  });

  test("release with a tombstone leaves one, whatever it found, for as long as it was told", async () => {
    expect(await redis.release("a", "t1", leaseMs)).toEqual({ type: "absent" });
    expect(await redis.execute("PTTL", tombstone("t1"))).toSatisfy(upTo(leaseMs));
    await redis.acquire("a", "t2");
    expect(await redis.release("a", "t3", leaseMs)).toEqual({ type: "foreign" });
    expect(await redis.execute("EXISTS", tombstone("t3"))).toBe(1);
  });

  test("release never deletes a key of another type", async () => {
    await redis.execute("HSET", lock, "field", "value");
    expect(await redis.release("a", "t1")).toEqual({ type: "foreign" });
    expect(await redis.execute("HGET", lock, "field")).toBe("value");
  });
});

describeRedis("extend on Redis", () => {
  const redis = useRedis();

  test("extend sets what is left, and never shortens it", async () => {
    await redis.acquire("a", "t1");
    expect(await redis.extend("a", "t1", 2 * leaseMs)).toEqual({ type: "extended", remainingMs: 2 * leaseMs });
    const reply = await redis.extend("a", "t1", leaseMs);
    expect(reply.remainingMs).toSatisfy((ms) => upTo(2 * leaseMs)(ms) && Number(ms) > leaseMs);
    expect(await redis.execute("PTTL", lock)).toSatisfy((ms) => Number(ms) > leaseMs);
  });

  test("extend gives an expiry to a key of its own that has none", async () => {
    await redis.execute("SET", lock, "t1");
    expect(await redis.extend("a", "t1")).toEqual({ type: "extended", remainingMs: leaseMs });
    expect(await redis.execute("PTTL", lock)).toSatisfy(upTo(leaseMs));
  });

  test("extend creates nothing, and leaves the lock of another alone", async () => {
    expect(await redis.extend("a", "t1")).toEqual({ type: "absent", remainingMs: 0 });
    expect(await redis.execute("EXISTS", lock)).toBe(0);
    await redis.acquire("a", "t2");
    expect(await redis.extend("a", "t1", 10 * leaseMs)).toEqual({ type: "foreign", remainingMs: 0 });
    expect(await redis.execute("PTTL", lock)).toSatisfy(upTo(leaseMs));
    await redis.execute("DEL", lock);
    await redis.execute("HSET", lock, "field", "value");
    expect(await redis.extend("a", "t1")).toEqual({ type: "foreign", remainingMs: 0 });
    expect(await redis.execute("PTTL", lock)).toBe(-1);
  });
});

describeRedis("inspect on Redis", () => {
  const redis = useRedis();

  test("inspect tells a free lock, a held one, and a key of another type", async () => {
    expect(await redis.inspect("a")).toEqual({ type: "free", counter: 0 });
    const { fence } = await redis.acquire("a", "t1");
    const held = await redis.inspect("a");
    expect(held).toMatchObject({ type: "held", token: "t1", counter: fence });
    expect(held.remainingMs).toSatisfy(upTo(leaseMs));
    await redis.release("a", "t1");
    expect(await redis.inspect("a")).toEqual({ type: "free", counter: fence });
    await redis.execute("HSET", lock, "field", "value");
    expect(await redis.inspect("a")).toEqual({ type: "foreign", counter: fence, remainingMs: -1 });
    await redis.execute("DEL", lock);
    await redis.execute("SET", lock, "");
    expect(await redis.inspect("a")).toEqual({ type: "held", token: "", counter: fence, remainingMs: -1 });
  });
});

describeRedis("the cost of the lock's scripts on Redis", () => {
  const redis = useRedis();

  const cost = (work: () => Promise<unknown>) => redis.countCommands(work);

  test("a granted acquire runs 4 commands, and with a proposal no more", async () => {
    expect(await cost(() => redis.acquire("a", "t1"))).toEqual({ mget: 1, time: 1, set: 2 });
    await redis.release("a", "t1");
    const proposal = (await redis.time()) + 1_000;
    expect(await cost(() => redis.acquire("a", "t2", proposal))).toEqual({ mget: 1, time: 1, set: 2 });
  });

  test("a contended poll runs 2 commands, and so does a repeated acquire", async () => {
    await redis.acquire("a", "t1");
    expect(await cost(() => redis.acquire("a", "t2"))).toEqual({ mget: 1, pttl: 1 });
    expect(await cost(() => redis.acquire("a", "t1"))).toEqual({ mget: 1, pttl: 1 });
  });

  test("a release runs 2 commands, and 3 with a tombstone", async () => {
    await redis.acquire("a", "t1");
    expect(await cost(() => redis.release("a", "t1"))).toEqual({ get: 1, del: 1 });
    await redis.acquire("a", "t2");
    expect(await cost(() => redis.release("a", "t2", leaseMs))).toEqual({ get: 1, del: 1, set: 1 });
  });

  test("an extend runs 3 commands", async () => {
    await redis.acquire("a", "t1");
    expect(await cost(() => redis.extend("a", "t1", 2 * leaseMs))).toEqual({ get: 1, pttl: 1, pexpire: 1 });
  });

  test("a look runs 3 commands", async () => {
    expect(await cost(() => redis.inspect("a"))).toEqual({ setrange: 1, mget: 1, pttl: 1 });
  });
});

function upTo(most: number): (value: unknown) => boolean {
  return (value) => Number.isSafeInteger(value) && Number(value) > 0 && Number(value) <= most;
}
