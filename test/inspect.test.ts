import { describe, expect, test } from "vitest";
import { memoryClient } from "../adapters/memory/index.ts";
import { type CommandClient, type Reply, ReplyError } from "../src/command.ts";
import { inspectLock } from "../src/inspect.ts";
import { createLock } from "../src/lock.ts";
import { oneRedis } from "./support/one-redis.ts";
import { lockError } from "./support/rejection.ts";
import { virtualEnvironment } from "./support/virtual-clock.ts";

const key = "lock:{job}";

describe("inspectLock()", () => {
  test("says who holds a lock, with which fence and until when, in one request that changes nothing", async () => {
    const { lock, client, clock, env, run, verbs } = oneRedis({ leaseMs: 10_000 });
    const lease = await lock.acquire("job");
    await clock.advance(1_000);
    const before = [await run("GET", key), await run("GET", `${key}:fence`), await run("DBSIZE")];
    const { token, fence } = lease;
    const short = `${token.slice(0, 8)}…`;
    expect(await inspectLock(client, "job", {}, env)).toEqual({
      verdict: "held",
      summary: `Held: ${short} on 1 of 1 (node 1), for another 9000 ms at most`,
      held: true,
      token: short,
      fence,
      remainingMs: 9_000,
      nodes: [{ label: "node 1", outcome: "held", token: short, fence, remainingMs: 9_000, roundTripMs: 0 }],
    });
    expect(verbs()).toEqual(["acquire", "inspect"]);
    expect([await run("GET", key), await run("GET", `${key}:fence`), await run("DBSIZE")]).toEqual(before);
    expect(await run("PTTL", key)).toBe(9_000);
  });

  test("says free, with the last fence, once it was released or has expired", async () => {
    const { lock, client, clock, env } = oneRedis({ leaseMs: 1_000 });
    const nodes = [{ label: "node 1", outcome: "free", fence: 0, roundTripMs: 0 }];
    const free = { verdict: "free", summary: "Free: nobody holds it", held: false, fence: 0, nodes };
    expect(await inspectLock(client, "job", {}, env)).toEqual(free);
    const first = await lock.acquire("job");
    await first.release();
    expect(await inspectLock(client, "job", {}, env)).toMatchObject({ held: false, fence: first.fence });
    const second = await lock.acquire("job");
    await clock.advance(1_001);
    const state = await inspectLock(client, "job", {}, env);
    expect(state).toMatchObject({ held: false, fence: second.fence });
    expect(state).not.toHaveProperty("token");
    expect(state).not.toHaveProperty("remainingMs");
  });

  test("shows a value without an expiry, and a key of another type, as held without an end", async () => {
    const { client, env, run } = oneRedis();
    await run("SET", key, "theirs");
    expect(await inspectLock(client, "job", {}, env)).toEqual({
      verdict: "held",
      summary: "Held: t… on 1 of 1 (node 1), without an end",
      held: true,
      token: "t…",
      fence: 0,
      nodes: [{ label: "node 1", outcome: "held", token: "t…", fence: 0, roundTripMs: 0 }],
    });
    await run("DEL", key);
    await run("HSET", key, "field", "value");
    expect(await inspectLock(client, "job", {}, env)).toEqual({
      verdict: "held",
      summary: "Held: a key of another type on 1 of 1 (node 1), without an end",
      held: true,
      fence: 0,
      nodes: [{ label: "node 1", outcome: "foreign", fence: 0, roundTripMs: 0 }],
    });
  });

  test("looks under the prefix and at the name that a lock would use", async () => {
    const { redis, env } = oneRedis();
    await createLock(redis, { prefix: "app" }, env).acquire("rebuild:{42}");
    expect(await inspectLock(redis, "rebuild:{42}", { prefix: "app" }, env)).toMatchObject({ held: true });
    expect(await inspectLock(redis, "rebuild:{42}", {}, env)).toMatchObject({ held: false });
    expect(await inspectLock(redis, "rebuild:{42}", { prefix: undefined }, env)).toMatchObject({ held: false });
  });

  test("refuses bad arguments, and sends nothing", async () => {
    const { client, env } = oneRedis();
    await lockError(inspectLock(client, "", {}, env), "config");
    await lockError(inspectLock(client, "job", { prefix: "a{b" }, env), "config");
    expect((await lockError(inspectLock([], "job", {}, env), "config")).message).toContain("clients");
    for (const quorum of [0, 2, 1.5, Number.NaN]) {
      const error = await lockError(inspectLock(client, "job", { quorum }, env), "config");
      expect(error.message).toMatch(/^Cannot use quorum as it must be an integer from 1 to 1: current value is /);
    }
    const raw = { call() {} } as unknown as CommandClient;
    expect((await lockError(inspectLock(raw, "job", {}, env), "config")).message).toContain("ioredisClient");
    expect((await lockError(inspectLock([client, raw], "job", {}, env), "config")).message).toContain("ioredisClient");
    expect(client.sent).toEqual([]);
  });

  test.for([
    [{ lose: "request" }, "unknown", "timeout", 2_500],
    [{ fail: new Error("ECONNREFUSED"), replyMs: 3 }, "unknown", "ECONNREFUSED", 0],
    [{ fail: new ReplyError("LOADING Redis is loading") }, "no-vote", "LOADING Redis is loading", 0],
    [{ fail: new ReplyError("NOAUTH Authentication required.") }, "no-vote", "NOAUTH Authentication required.", 0],
    [{ answer: "OK" }, "unknown", "odd reply", 0],
    [{ answer: ["t", 1, 2] }, "unknown", "odd reply", 0],
    [{ answer: [null, 1, 2] }, "unknown", "odd reply", 0],
  ] as const)("%o is unreachable, within a time of its own, with the reason", async ([fault, outcome, reason, ms]) => {
    const { client, env, clock } = oneRedis({}, { inspect: [fault] });
    expect(await clock.until(inspectLock(client, "job", {}, env), 5_000)).toEqual({
      verdict: "unreachable",
      summary: "Nobody can tell: 1 of 1 did not answer",
      held: false,
      fence: 0,
      nodes: [{ label: "node 1", outcome, reason, roundTripMs: ms }],
    });
    expect(clock.pending).toEqual([]);
  });

  test("measures the round trip", async () => {
    const { client, env, clock } = oneRedis({}, { inspect: [{ requestMs: 30, replyMs: 20 }] });
    expect((await clock.until(inspectLock(client, "job", {}, env))).nodes[0]?.roundTripMs).toBe(50);
  });

  test("shows no more than a quarter of a token, and at most 8 characters, anywhere", async () => {
    const { client, env, run } = oneRedis();
    for (const [token, short] of [
      ["t0123456789abcdef0123456789abcdef", "t0123456…"],
      ["a".repeat(100), "aaaaaaaa…"],
      ["abcd", "a…"],
      ["abc", "…"],
      ["", "…"],
    ] as const) {
      await run("SET", key, token);
      const state = await inspectLock(client, "job", {}, env);
      expect(state.token).toBe(short);
      if (token.length > 8) expect(JSON.stringify(state)).not.toContain(token.slice(0, 9));
    }
  });
});

describe("inspectLock() of several nodes", () => {
  const [tA, tB] = ["tA234567", "tB234567"];
  const silent: CommandClient = { execute: () => new Promise(() => {}) };
  const refusing: CommandClient = { execute: () => Promise.reject(new ReplyError("LOADING Redis is loading")) };
  const broken: CommandClient = { label: "lab", execute: async (): Promise<Reply> => "OK" };

  /** Three nodes, of which so many hold one token of the name. */
  async function nodes(tokens: readonly string[]) {
    const env = virtualEnvironment();
    const clients = await Promise.all(
      tokens.map(async (token, index) => {
        const redis = memoryClient({}, env);
        if (token === "hash") await redis.execute(["HSET", key, "field", "value"]);
        else if (token) await redis.execute(["SET", key, token, "PX", 10_000 + index * 1_000]);
        if (token) await redis.execute(["SET", `${key}:fence`, 70 + index]);
        return redis;
      }),
    );
    return { env, clients };
  }

  test("is held if one token stands on a majority, for as long as it does there", async () => {
    const { env, clients } = await nodes([tA, tA, ""]);
    const state = await inspectLock(clients, "job", {}, env);
    expect(state).toMatchObject({ verdict: "held", held: true, token: "tA…", fence: 71, remainingMs: 10_000 });
    expect(state.summary).toBe("Held: tA… on 2 of 3 (node 1, node 2), for another 11000 ms at most");
  });

  test("is split where two tokens stand, also if one of them is on a majority, which then still holds", async () => {
    const { env, clients } = await nodes([tA, tA, tB]);
    const state = await inspectLock(clients, "job", {}, env);
    expect(state).toMatchObject({ verdict: "split", held: true, token: "tA…", fence: 72, remainingMs: 10_000 });
    expect(state.nodes.map(({ label, token }) => [label, token])).toEqual([
      ["node 1", "tA…"],
      ["node 2", "tA…"],
      ["node 3", "tB…"],
    ]);
    expect(state.summary).toContain(
      "tA… on 2 of 3 (node 1, node 2), for another 11000 ms at most; tB… on 1 of 3 (node 3)",
    );
  });

  test("tells two tokens apart that begin alike", async () => {
    const { env, clients } = await nodes([`${tA}1`, `${tA}2`]);
    expect(await inspectLock(clients, "job", {}, env)).toMatchObject({ verdict: "split", held: false });
  });

  test("is split on a primary and the replica that took over from it, which is what must never be", async () => {
    const { env, clients } = await nodes([tA, tB]);
    const state = await inspectLock(clients, "job", {}, env);
    expect(state).toMatchObject({ verdict: "split", held: false });
    expect(state.summary).toContain("exclusion is broken");
  });

  test.for([
    [[tA, "", ""], [], 2, "minority"],
    [[tA, "", "", "", ""], [], 3, "minority"],
    [[tA, tA, tA, "", ""], [], 4, "minority"],
    [[tA, tA, tA, tA, ""], [], 4, "held"],
    [["", "", ""], [], 2, "free"],
    [["", ""], ["silent"], 2, "free"],
    [[""], ["silent", "silent"], 2, "unreachable"],
    [[tA, ""], ["silent"], 2, "unreachable"], // the silent one may make the quorum
    [[tA, "", ""], ["silent", "silent"], 3, "unreachable"],
    [[tA, "", "", ""], ["silent"], 3, "minority"],
    [[tA, tA], ["silent"], 2, "held"],
    [[tA, tB], ["silent"], 2, "split"],
    [["hash", "hash", ""], [], 2, "held"],
    [["hash", "", ""], [], 2, "minority"],
    [["hash", tA, ""], [], 2, "minority"],
    [[tA, tA, "hash"], [], 2, "held"],
  ] as const)("%j with %j, of which %i make a holder, is %s", async ([tokens, mute, quorum, verdict]) => {
    const { env, clients } = await nodes(tokens);
    const list = [...clients, ...mute.map(() => silent)];
    const state = await env.clock.until(inspectLock(list, "job", { quorum }, env));
    expect(state.verdict).toBe(verdict);
    expect(state.held).toBe(verdict === "held");
    if (verdict !== "held") expect(state).not.toHaveProperty("remainingMs");
  });

  test("counts the remaining time of the weakest of the majority, not of the weakest node", async () => {
    const { env, clients } = await nodes([tA, tA, tA]);
    expect(await inspectLock(clients, "job", {}, env)).toMatchObject({ remainingMs: 11_000 });
  });

  test("keeps to the order of the clients, whoever answers first, and tells why one said nothing", async () => {
    const { env, clients } = await nodes([tA, tA, tA]);
    const [one, two, three] = clients;
    if (!one || !two || !three) return expect.fail("no nodes");
    const list = [silent, one, two, broken, three];
    const state = await env.clock.until(inspectLock(list, "job", {}, env));
    expect(state.held).toBe(true);
    expect(state.nodes.map(({ label, outcome, reason }) => [label, outcome, reason])).toEqual([
      ["node 1", "unknown", "timeout"],
      ["node 2", "held", undefined],
      ["node 3", "held", undefined],
      ["lab", "unknown", "odd reply"],
      ["node 5", "held", undefined],
    ]);
  });

  test("names every node that did not answer, and why", async () => {
    const { env, clients } = await nodes([tA]);
    const list = [...clients, silent, refusing];
    const { verdict, summary, nodes: states } = await env.clock.until(inspectLock(list, "job", {}, env));
    expect(verdict).toBe("unreachable");
    expect(summary).toMatch(/^Nobody can tell: 2 of 3 did not answer; tA… on 1 of 3 \(node 1\)/);
    expect(states.map(({ reason }) => reason)).toEqual([undefined, "timeout", "LOADING Redis is loading"]);
  });
});
