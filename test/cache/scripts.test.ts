import { Redis } from "ioredis";
import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import { toReply } from "../../src/command.ts";
import type { Script } from "../../src/script.ts";
import { type CommitReply, commitScript } from "../../src/scripts/commit.ts";
import { type ElectReply, electScript } from "../../src/scripts/elect.ts";
import { invalidateScript } from "../../src/scripts/invalidate.ts";
import { type TendReply, tendScript } from "../../src/scripts/tend.ts";
import { describeRedis, type RunningRedis, startRedis } from "../support/redis.ts";

const key = "cache:{k}";
const minute = 60_000;

describeRedis("the scripts of the cache on Redis", () => {
  let server: RunningRedis;
  let redis: Redis;
  beforeAll(async () => {
    server = await startRedis();
    redis = new Redis(server.port, "127.0.0.1");
  });
  beforeEach(() => redis.flushall());
  afterAll(async () => {
    redis.disconnect();
    await server.stop();
  });

  async function run<Result>(script: Script<Result>, ...args: (string | number)[]): Promise<Result> {
    const reply = script.decode(toReply(await redis.call("EVAL", script.source, 1, key, ...args)));
    if (reply === undefined) throw new Error(`Cannot decode ${JSON.stringify(reply)}`);
    return reply;
  }
  const elect = (token: string, leaseMs = 10_000, mode: 0 | 1 | 2 = 1, codec = "j", staleMs = 0): Promise<ElectReply> =>
    run(electScript, token, leaseMs, codec, mode, staleMs);
  const commit = (
    token: string,
    fence: number,
    json: string,
    freshMs = minute,
    usefulMs = freshMs,
  ): Promise<CommitReply> => run(commitScript, token, `${fence}`, "j", `j${json}`, freshMs, usefulMs);
  const tend = (token: string, fence: number, lease: number): Promise<TendReply> =>
    run(tendScript, token, `${fence}`, "j", lease);
  const fail = (token: string, fence: number): Promise<TendReply> => tend(token, fence, -1);
  const invalidate = (soft: 0 | 1 = 0) => run(invalidateScript, soft);
  const field = async (name: string): Promise<number> => Number(await redis.hget(key, name));
  /** Puts an instant of the entry into the past, as waiting would. */
  const age = async (name: string, ms: number): Promise<void> => {
    await redis.hset(key, name, String((await field(name)) - ms));
  };
  const store = async (json: string, freshMs = minute, usefulMs = freshMs): Promise<void> => {
    const { attempt } = await elect("tStore", 10_000, 2);
    expect(await commit("tStore", attempt, json, freshMs, usefulMs)).toMatchObject({ type: "stored" });
  };
  async function innerCommands(step: () => Promise<unknown>): Promise<number> {
    await redis.config("RESETSTAT");
    await step();
    const stats = (await redis.info("commandstats")).matchAll(/cmdstat_(\w+)(?:\|\w+)*:calls=(\d+)/g);
    const own = new Set(["eval", "config", "info"]);
    return [...stats].reduce((sum, [, name, calls]) => sum + (own.has(name ?? "") ? 0 : Number(calls)), 0);
  }

  test("1: one of 200 elections over 50 connections is won, a thousand times over", { timeout: 60_000 }, async () => {
    const connections = Array.from({ length: 50 }, () => new Redis(server.port, "127.0.0.1"));
    const sha = String(await redis.script("LOAD", electScript.source));
    try {
      for (let round = 0; round < 1_000; round += 1) {
        const verdicts = await Promise.all(
          Array.from({ length: 200 }, async (_, i) => {
            const connection = connections[(i + round) % 50] ?? redis;
            const raw = await connection.evalsha(sha, 1, `cache:{${round}}`, `t${i}`, 10_000, "j", 1, 0);
            return electScript.decode(toReply(raw))?.type;
          }),
        );
        expect(verdicts.filter((verdict) => verdict === "won")).toHaveLength(1);
        expect(verdicts.filter((verdict) => verdict === "busy")).toHaveLength(199);
      }
    } finally {
      for (const connection of connections) connection.disconnect();
    }
  });

  test("2: a second copy of an election finds itself elected with the same fence, and changes nothing", async () => {
    const first = await elect("tA");
    await age("lu", 4_000);
    const again = await elect("tA");
    expect([first.type, again.type, again.attempt]).toEqual(["won", "won", first.attempt]);
    expect(again.leftMs).toBeLessThanOrEqual(6_000);
  });

  test("3: a second copy of a commit is told that the value is stored", async () => {
    const { attempt } = await elect("tA");
    expect(await commit("tA", attempt, "1")).toMatchObject({ type: "stored" });
    expect(await commit("tA", attempt, "1")).toMatchObject({ type: "stored" });
    expect(await elect("tB")).toMatchObject({ type: "hit", payload: "j1", fence: attempt });
  });

  test("4: a late builder is refused and given the newer value", async () => {
    const late = await elect("tA");
    await age("lu", 20_000);
    const next = await elect("tB");
    expect(next.attempt).toBeGreaterThan(late.attempt);
    await commit("tB", next.attempt, "2");
    const refusal = { type: "superseded", payload: "j2", fence: next.attempt };
    expect(await commit("tA", late.attempt, "1")).toMatchObject(refusal);
    expect(await elect("tC")).toMatchObject({ payload: "j2" });
  });

  test("8: a late builder whom nobody has replaced stores its value", async () => {
    const late = await elect("tA", 1_000);
    await age("lu", 3_000);
    expect(await redis.pttl(key)).toBeGreaterThan(50_000);
    expect(await commit("tA", late.attempt, "1")).toMatchObject({ type: "stored" });
  });

  test("6: a token that was elected, deleted and elected again stores only under its last fence", async () => {
    const first = await elect("tA");
    await redis.del(key);
    const second = await elect("tA");
    expect(second.attempt).toBeGreaterThan(first.attempt);
    expect(await commit("tA", second.attempt, "2")).toMatchObject({ type: "stored" });
    expect(await commit("tA", first.attempt, "1")).toMatchObject({ type: "superseded", payload: "j2" });
  });

  test("5: an invalidation and a deletion void the election under way", async () => {
    const voided = await elect("tA");
    const { attempt: fence } = await invalidate();
    expect(fence).toBeGreaterThan(voided.attempt);
    expect(await commit("tA", voided.attempt, "1")).toMatchObject({ type: "invalidated", payload: "" });

    const deleted = await elect("tC");
    expect(deleted.attempt).toBeGreaterThan(fence);
    await redis.del(key);
    expect(await commit("tC", deleted.attempt, "1")).toMatchObject({ type: "gone", payload: "" });
    expect(await elect("tD")).toMatchObject({ type: "won" });
  });

  test("35: an election that a late copy has won a second time does not let the first build store", async () => {
    const first = await elect("tA");
    await invalidate();
    const ghost = await elect("tA");
    expect(ghost).toMatchObject({ type: "won" });
    expect(ghost.attempt).toBeGreaterThan(first.attempt);
    expect(await commit("tA", first.attempt, '"old"')).toMatchObject({ type: "invalidated", payload: "" });
    expect(await fail("tA", first.attempt)).toMatchObject({ type: "over" });
    // The refusal drops the ghost, so that it costs the next reader no lease of waiting.
    expect(await elect("tB")).toMatchObject({ type: "won" });
  });

  test("an invalidation leaves nothing to serve, and the usual duration of a build", async () => {
    const { attempt } = await elect("tA");
    await age("ls", 800);
    await commit("tA", attempt, "1");
    await invalidate();
    expect(await redis.hget(key, "p")).toBeNull();
    expect(await elect("tB")).toMatchObject({ type: "won" });
    const busy = await elect("tC");
    expect(busy.type).toBe("busy");
    expect(busy.usualMs).toBeGreaterThanOrEqual(800);
    expect(busy.leftMs).toBeGreaterThan(9_000);
  });

  test("a waiter is told the rest of the lease, the build so far, and 0 while no build has ended", async () => {
    await elect("tA", 5_000);
    await age("ls", 300);
    const busy = await elect("tB");
    expect(busy).toMatchObject({ type: "busy", usualMs: 0 });
    expect(busy.elapsedMs).toBeGreaterThanOrEqual(300);
    expect(busy.leftMs).toBeLessThanOrEqual(5_000);
  });

  test("the usual duration falls fast and rises slowly", async () => {
    const build = async (ms: number): Promise<number> => {
      const { attempt } = await elect("tA");
      await age("ls", ms);
      await commit("tA", attempt, "1");
      await invalidate();
      return field("d");
    };
    const near = (expected: number) => [expect.toSatisfy((ms: number) => Math.abs(ms - expected) < 100)];
    expect([await build(1_000)]).toEqual(near(1_000));
    expect([await build(3_000)]).toEqual(near(1_600));
    expect([await build(600)]).toEqual(near(1_100));
  });

  test("9: failures double the back-off up to its bound, and a commit forgets them", async () => {
    await store("1", 10);
    await age("fu", minute);
    for (const backOffMs of [1_000, 2_000, 4_000, 8_000, 16_000, 30_000, 30_000]) {
      const { attempt, type } = await elect("tA");
      expect(type).toBe("won");
      expect(await fail("tA", attempt)).toMatchObject({ type: "failed", leftMs: backOffMs });
      const refused = await elect("tB");
      expect(refused.type).toBe("back-off");
      expect(refused.leftMs).toBeLessThanOrEqual(backOffMs);
      await age("bu", backOffMs);
    }
    const { attempt } = await elect("tA");
    await commit("tA", attempt, "2");
    await age("fu", 2 * minute);
    const after = await elect("tB");
    expect(await fail("tB", after.attempt)).toMatchObject({ type: "failed", leftMs: 1_000 });
  });

  test("giving an election back without a failure lets the next reader build at once", async () => {
    const { attempt } = await elect("tA");
    expect(await tend("tA", attempt, 0)).toMatchObject({ type: "over" });
    expect(await elect("tB")).toMatchObject({ type: "won" });
    expect(await fail("tA", attempt)).toMatchObject({ type: "over" });
  });

  test("the forced election of a set voids a build, and its own late copy only costs a lease", async () => {
    const build = await elect("tA");
    const set = await elect("tSet", 10_000, 2);
    expect(set).toMatchObject({ type: "won" });
    expect(await elect("tB")).toMatchObject({ type: "busy", usualMs: 0 });
    expect(await commit("tA", build.attempt, '"old"')).toMatchObject({ type: "superseded" });
    await commit("tSet", set.attempt, '"new"');
    await invalidate();
    expect(await elect("tSet", 10_000, 2)).toMatchObject({ type: "won" });
    expect(await commit("tSet", set.attempt, '"new"')).toMatchObject({ type: "invalidated", payload: "" });
    expect(await elect("tB")).toMatchObject({ type: "won" });
  });

  test("a look changes nothing, whatever stands there", async () => {
    expect(await elect("", 10_000, 0)).toMatchObject({ type: "none" });
    expect(await redis.exists(key)).toBe(0);
    await store("1");
    const before = await redis.hgetall(key);
    expect(await elect("", 10_000, 0)).toMatchObject({ type: "hit", payload: "j1" });
    expect(await redis.hgetall(key)).toEqual(before);
    await age("fu", minute);
    expect(await elect("", 10_000, 0)).toMatchObject({ type: "none", payload: "j1" });
    await age("xu", minute);
    expect(await elect("", 10_000, 0)).toMatchObject({ type: "none", payload: "" });
  });

  test("an old payload comes with what needs it, until it is of no use any more", async () => {
    await store("1", 10_000, minute);
    await age("fu", 15_000);
    const won = await elect("tA");
    expect(won).toMatchObject({ type: "won", payload: "j1" });
    expect(won.ageMs).toBeGreaterThanOrEqual(5_000);
    expect(won.ageMs).toBeLessThan(6_000);
    expect(await elect("tB")).toMatchObject({ type: "busy", payload: "" });
    expect(await elect("tB", 10_000, 1, "j", 5_000)).toMatchObject({ type: "busy", payload: "" });
    expect(await elect("tB", 10_000, 1, "j", 10_000)).toMatchObject({ type: "busy", payload: "j1" });
    expect(await fail("tA", won.attempt)).toMatchObject({ type: "failed", payload: "j1" });
    expect(await elect("tB")).toMatchObject({ type: "back-off", payload: "j1" });
    await age("xu", minute);
    expect(await elect("tB")).toMatchObject({ type: "back-off", payload: "" });
  });

  test("18: a soft invalidation ends freshness and every election, and keeps the payload for as long as it was of use", async () => {
    await store("1", minute, 2 * minute);
    const xu = await field("xu");
    const { attempt: floor } = await invalidate(1);
    const look = await elect("", 10_000, 0);
    expect(look).toMatchObject({ type: "none", payload: "j1" });
    expect(look.ageMs).toBeGreaterThanOrEqual(0);
    expect(look.ageMs).toBeLessThan(1_000);
    expect(await field("xu")).toBe(xu);
    const building = await elect("tA");
    expect(building).toMatchObject({ type: "won", payload: "j1" });
    expect(building.attempt).toBeGreaterThan(floor);
    await age("fu", 10_000);
    await invalidate(1);
    expect((await elect("", 10_000, 0)).ageMs).toBeGreaterThanOrEqual(10_000);
    expect(await commit("tA", building.attempt, "2")).toMatchObject({ type: "invalidated", payload: "" });
    await invalidate();
    expect(await redis.hexists(key, "p")).toBe(0);
  });

  test("a renewal gives an election that stands another lease, never shortens it, and brings none back", async () => {
    const { attempt } = await elect("tA", 10_000);
    await age("lu", 9_000);
    expect(await tend("tA", attempt, 10_000)).toMatchObject({ type: "renewed", leftMs: 10_000 });
    expect((await tend("tA", attempt, 1_000)).leftMs).toBeGreaterThan(9_000);
    expect(await tend("tB", attempt, 10_000)).toMatchObject({ type: "over" });
    await age("lu", 20_000); // nobody else was elected
    expect(await tend("tA", attempt, 10_000)).toMatchObject({ type: "renewed" });
    await invalidate();
    expect(await tend("tA", attempt, 10_000)).toMatchObject({ type: "over" });
    await redis.del(key);
    expect(await tend("tA", attempt, 10_000)).toMatchObject({ type: "over" });
    expect(await redis.exists(key)).toBe(0);
  });

  test("a payload of another codec is a miss", async () => {
    await store("1");
    expect(await elect("tA", 10_000, 1, "u1:")).toMatchObject({ type: "won" });
  });

  test("a key of another type is never touched", async () => {
    await redis.set(key, "mine");
    for (const step of [() => elect("tA"), () => commit("tA", 1, "1"), () => fail("tA", 1), () => invalidate()]) {
      await expect(step()).rejects.toThrow("WRONGTYPE");
    }
    expect(await redis.get(key)).toBe("mine");
  });

  test("15: a fence above 2^50 keeps all its digits, and grows although the server's clock stands behind it", async () => {
    const first = await elect("tA");
    expect(first.attempt).toBeGreaterThan(2 ** 50);
    const ahead = 2 ** 52 + 1;
    await redis.hset(key, "lf", String(ahead));
    await age("lu", minute);
    const next = await elect("tB");
    expect(next.attempt).toBe(ahead + 1);
    expect(await redis.hget(key, "lf")).toBe(String(ahead + 1));
    expect(await commit("tB", next.attempt, "1")).toMatchObject({ type: "stored" });
    expect((await invalidate()).attempt).toBe(ahead + 2);
  });

  /** The same script on a server whose clock is an hour ahead: what runs without it after that sees a clock that stepped back. */
  function hourAhead<Result>(script: Script<Result>): Script<Result> {
    const reading = "local us = t[1] * 1000000 + t[2]";
    expect(script.source).toContain(reading);
    return { ...script, source: script.source.replace(reading, `${reading} + 3600e6`) };
  }
  const electAhead = (token: string): Promise<ElectReply> => run(hourAhead(electScript), token, 10_000, "j", 1, 0);

  test("14: after the server's clock has stepped back fences grow on, one by one, while the key lives", async () => {
    const before = await electAhead("tA");
    expect(await elect("tB")).toMatchObject({ type: "busy" });
    expect(await commit("tA", before.attempt, "1")).toMatchObject({ type: "stored" });
    const given = [before.attempt, (await invalidate(1)).attempt, (await elect("tB")).attempt];
    expect(await elect("tC")).toMatchObject({ type: "busy" });
    given.push((await invalidate()).attempt, (await elect("tC")).attempt, (await elect("tSet", 10_000, 2)).attempt);
    expect(given).toEqual(given.map((_, place) => before.attempt + place));
    expect(await commit("tC", before.attempt + 4, '"voided"')).toMatchObject({ type: "superseded" });
    expect(await commit("tSet", before.attempt + 5, '"set"')).toMatchObject({ type: "stored" });
    expect(await elect("tD")).toMatchObject({ type: "hit", payload: 'j"set"', fence: before.attempt + 5 });
  });

  test("14: an election from before the step stands, and an invalidation voids it, so that it is in nobody's way", async () => {
    const voided = await electAhead("tA");
    expect(await elect("tB")).toMatchObject({ type: "busy" });
    await invalidate();
    expect(await commit("tA", voided.attempt, "1")).toMatchObject({ type: "invalidated", payload: "" });
    expect(await elect("tB")).toMatchObject({ type: "won" });
  });

  test("14: where the key was lost too fences are smaller, and no builder from before stores anything", async () => {
    const before = await electAhead("tA");
    await redis.del(key);
    expect(await commit("tA", before.attempt, '"old"')).toMatchObject({ type: "gone" });
    const after = await elect("tB");
    expect(after.attempt).toBeLessThan(before.attempt);
    expect(await commit("tA", before.attempt, '"old"')).toMatchObject({ type: "superseded", payload: "" });
    expect(await tend("tA", before.attempt, 10_000)).toMatchObject({ type: "over" });
    expect(await commit("tB", after.attempt, '"new"')).toMatchObject({ type: "stored" });
    expect(await commit("tA", before.attempt, '"old"')).toMatchObject({ type: "superseded" });
    expect(await elect("tA")).toMatchObject({ type: "hit", payload: 'j"new"', fence: after.attempt });
  });

  test("14: a fence that is given twice lets only the builder that was elected with it last store", async () => {
    const before = await electAhead("tA");
    await redis.del(key);
    await redis.hset(key, "lf", String(before.attempt - 1));
    const after = await elect("tB");
    expect(after.attempt).toBe(before.attempt);
    expect(await commit("tA", before.attempt, '"old"')).toMatchObject({ type: "superseded", payload: "" });
    expect(await fail("tA", before.attempt)).toMatchObject({ type: "over" });
    expect(await commit("tB", after.attempt, '"new"')).toMatchObject({ type: "stored" });
    expect(await elect("tC")).toMatchObject({ type: "hit", payload: 'j"new"' });
  });

  test("7: every script leaves a time to live, a minute longer than anything in the entry", async () => {
    const day = 24 * 60 * minute;
    const expectLife = async (ms: number): Promise<void> => {
      expect(Math.abs((await redis.pttl(key)) - ms - minute)).toBeLessThan(1_000);
    };
    const { attempt } = await elect("tA", 20_000);
    await expectLife(20_000);
    await fail("tA", attempt);
    await expectLife(1_000);
    await store("1", day);
    await expectLife(day);
    const set = await elect("tSet", 10_000, 2);
    await expectLife(day);
    await tend("tSet", set.attempt, 0);
    await expectLife(day);
    await invalidate();
    await expectLife(0);
  });

  test("inner commands: hit 2, busy 2, won, renewed and commit 4, refused 2, fail and invalidation 5", async () => {
    let attempt = 0;
    const cost: Record<string, number> = {};
    cost.won = await innerCommands(async () => {
      attempt = (await elect("tA")).attempt;
    });
    cost.busy = await innerCommands(() => elect("tB"));
    cost.commit = await innerCommands(() => commit("tA", attempt, "1"));
    cost.hit = await innerCommands(() => elect("tB"));
    cost.duplicate = await innerCommands(() => commit("tA", attempt, "1"));
    cost.refused = await innerCommands(() => commit("tB", attempt - 1, "1"));
    cost.softInvalidate = await innerCommands(() => invalidate(1));
    cost.invalidate = await innerCommands(() => invalidate());
    attempt = (await elect("tA")).attempt;
    cost.renew = await innerCommands(() => tend("tA", attempt, 10_000));
    cost.fail = await innerCommands(() => fail("tA", attempt));
    cost.backOff = await innerCommands(() => elect("tB"));
    expect(cost).toEqual({
      won: 4,
      busy: 2,
      commit: 4,
      hit: 2,
      duplicate: 2,
      refused: 2,
      softInvalidate: 5,
      invalidate: 5,
      renew: 4,
      fail: 5,
      backOff: 2,
    });
  });

  test("29: a hit changes nothing on the server", async () => {
    await store("1");
    const changes = async (): Promise<string | undefined> =>
      /rdb_changes_since_last_save:(\d+)/.exec(await redis.info("persistence"))?.[1];
    const before = await changes();
    await elect("tA");
    expect(await changes()).toBe(before);
  });

  test("24: a server that is out of memory serves, invalidates and takes elections back, and stores nothing", async () => {
    await store("1");
    await redis.config("SET", "maxmemory", "1");
    try {
      expect(await elect("tA")).toMatchObject({ type: "hit", payload: "j1" });
      expect((await invalidate()).attempt).toBeGreaterThan(0);
      await expect(elect("tA")).rejects.toThrow("OOM");
    } finally {
      await redis.config("SET", "maxmemory", "0");
    }
    expect(await elect("tB")).toMatchObject({ type: "won" });
    const { attempt } = await elect("tB");
    await redis.config("SET", "maxmemory", "1");
    try {
      await expect(commit("tB", attempt, "2")).rejects.toThrow("OOM");
      expect(await fail("tB", attempt)).toMatchObject({ type: "failed" });
    } finally {
      await redis.config("SET", "maxmemory", "0");
    }
    expect(await elect("tC")).toMatchObject({ type: "back-off" });
  });
});
