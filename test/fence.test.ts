import fc from "fast-check";
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { memoryClient } from "../adapters/memory/index.ts";
import { ReplyError } from "../src/command.ts";
import { fencedSet } from "../src/fence.ts";
import { fenceKeyOf } from "../src/keys.ts";
import { runScript } from "../src/script.ts";
import { fencedSetScript } from "../src/scripts/fenced-set.ts";
import { type Pair, startPair } from "./scripts/pair.ts";
import { useRedis } from "./scripts/server.ts";
import { slotOf } from "./scripts/slot.ts";
import { type Fault, faultyClient } from "./support/faulty-client.ts";
import { loosely } from "./support/loosely.ts";
import { describeRedis } from "./support/redis.ts";
import { lockError } from "./support/rejection.ts";
import { virtualEnvironment } from "./support/virtual-clock.ts";

const week = 7 * 86_400_000;

function redis(fault?: Fault) {
  const env = virtualEnvironment();
  const node = memoryClient({}, env);
  const client = faultyClient(node, env.clock, () => fault);
  const run = (...command: (string | number)[]) => node.execute(command);
  const set = (value: string, fence: number, ttlMs?: number, key = "report") =>
    fencedSet(client, { key, value, fence, ttlMs }, env);
  return { env, clock: env.clock, client, run, set, nowUs: () => env.clock.wall * 1_000 };
}

describe("fencedSet()", () => {
  test("writes, and from then on only for the same fence or a newer one", async () => {
    const { set, run } = redis();
    expect(await set("a", 41)).toBe(true);
    expect(await set("b", 41)).toBe(true);
    expect(await set("c", 42)).toBe(true);
    expect(await set("late", 41)).toBe(false);
    expect(await run("GET", "report")).toBe("c");
    expect(await run("GET", "{report}::fence")).toBe("42");
    expect(await set("d", 42)).toBe(true);
  });

  test("compares numbers: 10 is newer than 9, and 2^53 - 1 than 2^53 - 2", async () => {
    const { set } = redis();
    expect(await set("a", 9)).toBe(true);
    expect(await set("b", 10)).toBe(true);
    expect(await set("c", 9)).toBe(false);
    expect(await set("d", 2 ** 53 - 1)).toBe(true);
    expect(await set("e", 2 ** 53 - 2)).toBe(false);
  });

  test("a refused write changes neither the value, nor its life, nor its fence's", async () => {
    const { set, run, clock } = redis();
    await set("a", 42, 60_000);
    await clock.advance(10_000);
    expect(await set("late", 41, 90_000)).toBe(false);
    expect(await run("PTTL", "report")).toBe(50_000);
    expect(await run("PTTL", "{report}::fence")).toBe(week - 10_000);
  });

  test("gives the value ttlMs to live, and none means no end; its fence lives 7 days, or as long", async () => {
    const { set, run } = redis();
    await set("a", 1, 5_000);
    expect([await run("PTTL", "report"), await run("PTTL", "{report}::fence")]).toEqual([5_000, week]);
    await set("b", 2);
    expect([await run("PTTL", "report"), await run("PTTL", "{report}::fence")]).toEqual([-1, week]);
    await set("c", 3, 2 * week);
    expect([await run("PTTL", "report"), await run("PTTL", "{report}::fence")]).toEqual([2 * week, 2 * week]);
  });

  test("a fence that runs ahead of the clock lives longer by as much", async () => {
    const { set, run, nowUs } = redis();
    await set("a", nowUs() + 3_600_000_000, 5_000);
    expect(await run("PTTL", "{report}::fence")).toBe(week + 3_600_000);
  });

  test("replaces a key of any type, as SET does", async () => {
    const { set, run } = redis();
    await run("HSET", "report", "field", "value");
    expect(await set("a", 1)).toBe(true);
    expect(await run("GET", "report")).toBe("a");
  });

  test("does not touch a key of another type where the fence belongs", async () => {
    const { set, run } = redis();
    await run("HSET", "{report}::fence", "field", "value");
    expect((await lockError(set("a", 1), "config")).message).toContain("WRONGTYPE");
    expect(await run("EXISTS", "report")).toBe(0);
    expect(await run("TYPE", "{report}::fence")).toBe("hash");
  });

  test.for([
    ["report", "{report}::fence"],
    ["a:b", "{a:b}::fence"],
    ["50%", "{50%}::fence"],
    ["user:{42}:profile", "user:{42}:profile:fence"],
    ["{x}", "{x}:fence"],
    ["{x}{y}", "{x}{y}:fence"],
    ["x{a{b}", "x{a{b}:fence"],
  ])("the fence of %j stands at %j, in the same slot", async ([key = "", fence = ""]) => {
    expect(fenceKeyOf(key)).toBe(fence);
    expect(slotOf(key)).toBe(slotOf(fence));
    const { set, run } = redis();
    await set("a", 7, undefined, key);
    expect([await run("GET", key), await run("GET", fence)]).toEqual(["a", "7"]);
  });

  test.for<[object, string]>([
    [{ key: "" }, "key as it must be non-empty and well-formed"],
    [{ key: "a{b" }, 'key as it must be without braces, or with a hash tag: current value is "a{b"'],
    [{ key: "a}b" }, "key as it must be without braces"],
    [{ key: "{}x" }, "key as it must be without braces"],
    [{ key: "\ud800" }, "key as it must be non-empty and well-formed"],
    [{ value: 7 }, "value as it must be a string: current value is"],
    [{ value: undefined }, "value as it must be a string"],
    [{ fence: 0 }, "fence as it must be a safe integer from 1: current value is 0"],
    [{ fence: 1.5 }, "fence"],
    [{ fence: 2 ** 53 }, "fence"],
    [{ fence: "7" }, "fence"],
    [{ fence: undefined }, "fence"],
    [{ ttlMs: 0 }, "ttlMs"],
    [{ ttlMs: 1.5 }, "ttlMs"],
    [{ ttlMs: -1 }, "ttlMs"],
  ])("refuses %o, and sends nothing", async ([wrong, message]) => {
    const { client, env } = redis();
    const error = await lockError(
      loosely(fencedSet, client, { key: "report", value: "a", fence: 1, ...wrong }, env),
      "config",
    );
    expect(error.message).toContain(`Cannot use ${message}`);
    expect(client.sent).toEqual([]);
  });

  test("refuses what is no write at all", async () => {
    const { client, env } = redis();
    for (const write of [undefined, null, "report"]) await lockError(loosely(fencedSet, client, write, env), "config");
    expect(client.sent).toEqual([]);
  });

  test("never shows the value in an error", async () => {
    const { client, env } = redis();
    const error = await lockError(
      loosely(fencedSet, client, { key: "a", value: { secret: "s3cret" }, fence: 1 }, env),
      "config",
    );
    expect(error.message).not.toContain("s3cret");
    const echoing = redis({ fail: new ReplyError("ERR at 'a value of which nobody must know'") });
    const other = await lockError(echoing.set("a value of which nobody must know", 1), "unavailable");
    expect(JSON.stringify(other)).not.toContain("nobody must know");
  });

  test("refuses a foreign client", async () => {
    const error = await lockError(loosely(fencedSet, { call() {} }, { key: "a", value: "b", fence: 1 }), "config");
    expect(error.message).toContain("ioredisClient");
  });

  test.for<[string, Fault, "unavailable" | "config", string]>([
    ["a lost reply", { lose: "reply" }, "unavailable", "timeout"],
    ["a lost request", { lose: "request" }, "unavailable", "timeout"],
    ["a reset", { fail: new Error("ECONNRESET") }, "unavailable", "ECONNRESET"],
    ["an odd reply", { answer: "OK" }, "unavailable", "odd reply"],
    ["a full server", { fail: new ReplyError("OOM command not allowed") }, "unavailable", "OOM"],
    ["wrong credentials", { fail: new ReplyError("NOAUTH Authentication required.") }, "config", "NOAUTH"],
  ])("%s is an error, never true or false; the same call again is safe", async ([, fault, code, reason]) => {
    const { set, clock, env, run } = redis(fault);
    const error = await lockError(clock.until(set("a", 5)), code);
    expect(error.message).toMatch(/^Cannot write "report" as too few definite answers: node 1: /);
    expect(error.message).toContain(reason);
    expect(clock.pending).toEqual([]);
    const again = { execute: (command: readonly (string | number)[]) => run(...command) };
    expect(await fencedSet(again, { key: "report", value: "a", fence: 5 }, env)).toBe(true);
    expect(await run("GET", "report")).toBe("a");
  });
});

describeRedis("fencedSet() on a real Redis", () => {
  const server = useRedis();
  let pair: Pair;
  beforeAll(async () => {
    pair = await startPair();
  });
  beforeEach(() => pair.clear());
  afterAll(() => pair.stop());

  test("writes once for each fence that is as new as all before", async () => {
    const { client } = server;
    const now = await server.time();
    const set = (value: string, fence: number, ttlMs?: number) =>
      fencedSet(client, { key: "report", value, fence, ttlMs });
    expect(await set("a", now)).toBe(true);
    expect(await set("b", now + 1, 60_000)).toBe(true);
    expect(await set("late", now)).toBe(false);
    expect(await client.execute(["GET", "report"])).toBe("b");
    expect(await client.execute(["GET", "{report}::fence"])).toBe(String(now + 1));
    expect(Number(await client.execute(["PTTL", "{report}::fence"]))).toBeGreaterThan(week - 60_000);
  });

  test("of a hundred writers in any order the newest wins", async () => {
    const { client } = server;
    const fences = Array.from({ length: 100 }, (_, index) => ((index * 37) % 100) + 1);
    await Promise.all(fences.map((fence) => fencedSet(client, { key: "report", value: `${fence}`, fence })));
    expect(await client.execute(["GET", "report"])).toBe("100");
  });

  test("costs one request, and four commands within", async () => {
    const write = () => fencedSet(server.client, { key: "report", value: "a", fence: 1 });
    expect(await server.countCommands(write)).toEqual({ get: 1, time: 1, set: 2 });
  });

  test("a server that is full refuses it whole", async () => {
    await server.execute("CONFIG", "SET", "maxmemory", "1");
    try {
      const error = await lockError(fencedSet(server.client, { key: "report", value: "a", fence: 1 }), "unavailable");
      expect(error.message).toContain("OOM");
      expect(await server.execute("DBSIZE")).toBe(0);
    } finally {
      await server.execute("CONFIG", "SET", "maxmemory", "0");
    }
  });

  test("its twin replies the same in any trace", async () => {
    const steps = fc.array(
      fc.record({
        key: fc.constantFrom("a", "b:{tag}"),
        aheadMs: fc.constantFrom(-3_600_000, 0, 3_600_000),
        order: fc.integer({ min: 0, max: 3 }),
        ttlMs: fc.constantFrom(0, 60_000, 2 * week),
        value: fc.string({ maxLength: 5 }),
      }),
      { maxLength: 20 },
    );
    await fc.assert(
      fc.asyncProperty(steps, async (trace) => {
        await pair.clear();
        for (const { key, aheadMs, order, ttlMs, value } of trace) {
          await pair.both((client, serverUs) => {
            // Both see fences in one order, whatever their clocks say of a µs.
            const fence = Math.round(serverUs / 6e10) * 6e10 + aheadMs * 1_000 + order;
            const call = { script: fencedSetScript, keys: [key, fenceKeyOf(key)], args: [fence, value, ttlMs] };
            return runScript(client, call, (command) => client.execute(command));
          });
          for (const each of [key, fenceKeyOf(key)]) {
            await pair.both((client) => client.execute(["PTTL", each]));
          }
          await pair.both((client) => client.execute(["GET", key]));
        }
      }),
      { numRuns: 100 },
    );
  });
});
