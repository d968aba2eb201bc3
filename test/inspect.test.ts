import { describe, expect, test } from "vitest";
import { memoryClient } from "../adapters/memory/index.ts";
import { type CommandClient, type Reply, ReplyError } from "../src/command.ts";
import { inspectLock } from "../src/inspect.ts";
import { createLock } from "../src/lock.ts";
import { lockError, oneRedis } from "./support/one-redis.ts";
import { virtualEnvironment } from "./support/virtual-clock.ts";

const key = "lock:{job}";

describe("inspectLock()", () => {
  test("says who holds a lock, with which fence and until when, in one request that changes nothing", async () => {
    const { lock, client, clock, env, run, verbs } = oneRedis({ leaseMs: 10_000 });
    const lease = await lock.acquire("job");
    await clock.advance(1_000);
    const before = [await run("GET", key), await run("GET", `${key}:fence`), await run("DBSIZE")];
    const { token, fence } = lease;
    expect(await inspectLock(client, "job", {}, env)).toEqual({
      held: true,
      token,
      fence,
      remainingMs: 9_000,
      nodes: [{ label: "node 1", outcome: "held", token, fence, remainingMs: 9_000 }],
    });
    expect(verbs()).toEqual(["acquire", "inspect"]);
    expect([await run("GET", key), await run("GET", `${key}:fence`), await run("DBSIZE")]).toEqual(before);
    expect(await run("PTTL", key)).toBe(9_000);
  });

  test("says free, with the last fence, once it was released or has expired", async () => {
    const { lock, client, clock, env } = oneRedis({ leaseMs: 1_000 });
    const free = { held: false, fence: 0, nodes: [{ label: "node 1", outcome: "free", fence: 0 }] };
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
      held: true,
      token: "theirs",
      fence: 0,
      nodes: [{ label: "node 1", outcome: "held", token: "theirs", fence: 0 }],
    });
    await run("DEL", key);
    await run("HSET", key, "field", "value");
    expect(await inspectLock(client, "job", {}, env)).toEqual({
      held: true,
      fence: 0,
      nodes: [{ label: "node 1", outcome: "foreign", fence: 0 }],
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
    await lockError(inspectLock([], "job", {}, env), "config");
    const raw = { call() {} } as unknown as CommandClient;
    expect((await lockError(inspectLock(raw, "job", {}, env), "config")).message).toContain("ioredisClient");
    expect((await lockError(inspectLock([client, raw], "job", {}, env), "config")).message).toContain("ioredisClient");
    expect(client.sent).toEqual([]);
  });

  test.for([
    [{ lose: "request" }, "unavailable"],
    [{ fail: new Error("ECONNREFUSED") }, "unavailable"],
    [{ fail: new ReplyError("LOADING Redis is loading") }, "unavailable"],
    [{ fail: new ReplyError("NOAUTH Authentication required.") }, "config"],
    [{ answer: "OK" }, "unavailable"],
    [{ answer: ["t", 1, 2] }, "unavailable"],
    [{ answer: [null, 1, 2] }, "unavailable"],
  ] as const)("%o is %s, within a time of its own", async ([fault, code]) => {
    const { client, env, clock } = oneRedis({}, { inspect: [fault] });
    const error = await lockError(clock.until(inspectLock(client, "job", {}, env), 5_000), code);
    expect(error.message).toMatch(/^Cannot inspect "job" as too few definite answers: node 1 said: ./);
    expect(clock.pending).toEqual([]);
  });
});

describe("inspectLock() of several nodes", () => {
  const silent: CommandClient = { execute: () => new Promise(() => {}) };
  const refusing: CommandClient = { execute: () => Promise.reject(new ReplyError("LOADING Redis is loading")) };
  const broken: CommandClient = { label: "lab", execute: async (): Promise<Reply> => "OK" };

  /** Three nodes, of which so many hold one token of the name. */
  async function nodes(tokens: readonly string[]) {
    const env = virtualEnvironment();
    const clients = await Promise.all(
      tokens.map(async (token, index) => {
        const redis = memoryClient({}, env);
        if (token) await redis.execute(["SET", key, token, "PX", 10_000 + index * 1_000]);
        if (token) await redis.execute(["SET", `${key}:fence`, 70 + index]);
        return redis;
      }),
    );
    return { env, clients };
  }

  test("is held if one token stands on a majority, for as long as it does there", async () => {
    const { env, clients } = await nodes(["tA", "tA", "tB"]);
    const state = await inspectLock(clients, "job", {}, env);
    expect(state).toMatchObject({ held: true, token: "tA", fence: 72, remainingMs: 10_000 });
    expect(state.nodes.map(({ label, token }) => [label, token])).toEqual([
      ["node 1", "tA"],
      ["node 2", "tA"],
      ["node 3", "tB"],
    ]);
  });

  test("counts the remaining time of the weakest of the majority, not of the weakest node", async () => {
    const { env, clients } = await nodes(["tA", "tA", "tA"]);
    expect(await inspectLock(clients, "job", {}, env)).toMatchObject({ remainingMs: 11_000 });
  });

  test("is not held while no token stands on a majority", async () => {
    for (const tokens of [
      ["tA", "tB", "tC"],
      ["tA", "", ""],
      ["", "", ""],
      ["tA", "tB", ""],
    ]) {
      const { env, clients } = await nodes(tokens);
      const state = await inspectLock(clients, "job", {}, env);
      expect(state.held).toBe(false);
      expect(state).not.toHaveProperty("token");
    }
  });

  test("keeps to the order of the clients, whoever answers first, and tells why one said nothing", async () => {
    const { env, clients } = await nodes(["tA", "tA", "tA"]);
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

  test("is unavailable when fewer than a majority answered, whatever those said", async () => {
    const { env, clients } = await nodes(["tA"]);
    const list = [...clients, silent, refusing];
    const error = await lockError(env.clock.until(inspectLock(list, "job", {}, env)), "unavailable");
    expect(error.nodes).toHaveLength(3);
  });
});
