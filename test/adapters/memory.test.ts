import fc from "fast-check";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { memoryClient } from "../../adapters/memory/index.ts";
import type { Command, Reply } from "../../src/command.ts";
import { clientContract } from "../contract/client.ts";
import { type Pair, startPair } from "../scripts/pair.ts";
import { describeRedis } from "../support/redis.ts";
import { VirtualClock } from "../support/virtual-clock.ts";

clientContract("memoryClient()", async () => ({ client: memoryClient(), close: async () => {} }), {
  onlyOwnScripts: true,
});

describe("memoryClient()", () => {
  const build = (): { clock: VirtualClock; execute: (...command: Command) => Promise<Reply> } => {
    const clock = new VirtualClock();
    const client = memoryClient({}, { clock });
    return { clock, execute: (...command) => client.execute(command) };
  };

  test("keeps a key through the last millisecond of its life and no longer", async () => {
    const { clock, execute } = build();
    await execute("SET", "key", "value", "PX", 1_000);
    clock.freeze(999);
    expect(await execute("PTTL", "key")).toBe(1);
    clock.freeze(1);
    expect(await execute("GET", "key")).toBe("value");
    expect(await execute("PTTL", "key")).toBe(0);
    clock.freeze(1);
    expect(await execute("GET", "key")).toBeNull();
    expect(await execute("PTTL", "key")).toBe(-2);
    expect(await execute("SET", "key", "next", "NX")).toBe("OK");
    expect(await execute("PTTL", "key")).toBe(-1);
  });

  test("expires by the wall clock, as Redis does", async () => {
    const { clock, execute } = build();
    await execute("SET", "key", "value", "EX", 60);
    clock.wall += 60_001;
    expect(await execute("EXISTS", "key")).toBe(0);
  });

  test("DBSIZE does not count keys that have expired", async () => {
    const { clock, execute } = build();
    for (let i = 0; i < 3_000; i += 1) {
      await execute("SET", `key:${i}`, "value", "PX", 1_000);
      clock.freeze(1);
    }
    expect(await execute("DBSIZE")).toBe(1_000);
  });

  test("TIME gives the clock's wall time as seconds and microseconds", async () => {
    const { clock, execute } = build();
    clock.wall = 1_700_000_000_012.25;
    expect(await execute("TIME")).toEqual(["1700000000", "12250"]);
  });

  test("runs commands in the order in which they are sent, and replies later", async () => {
    const { execute } = build();
    const order: unknown[] = [];
    const replies = [execute("INCR", "key"), execute("INCR", "key")].map((reply) => reply.then((n) => order.push(n)));
    expect(order).toEqual([]);
    await Promise.all(replies);
    expect(order).toEqual([1, 2]);
  });

  test("two clients share nothing", async () => {
    const [one, other] = [build(), build()];
    await one.execute("SET", "key", "value");
    expect(await other.execute("GET", "key")).toBeNull();
  });

  test("knows no script but those of the package", async () => {
    const { execute } = build();
    await expect(execute("EVAL", "return 1", 0)).rejects.toMatchObject({
      name: "ReplyError",
      code: "ERR",
      message: "ERR Cannot run this script as the memory client runs only those of its own package",
    });
    await expect(execute("EVALSHA", "f".repeat(40), 0)).rejects.toHaveProperty("code", "NOSCRIPT");
  });

  test("reads no clock before the first command", () => {
    const clock = { now: () => expect.fail("The clock was read"), after: () => expect.fail("A timer was set") };
    expect(memoryClient({ label: "here" }, { clock }).label).toBe("here");
    expect(memoryClient().label).toBeUndefined();
  });
});

describeRedis("memoryClient() and Redis", () => {
  let pair: Pair;
  beforeAll(async () => {
    pair = await startPair();
  });
  afterAll(() => pair.stop());

  const key = fc.constantFrom("string", "hash", "list", "other");
  const text = fc.constantFrom("", "a", "7", "-7", "07", "+7", "-0", " 7", "1.5", "9223372036854775807", "grüße ☃ 😀");
  const life = fc.constantFrom(100_000_000, "200000000", 0, -1, "soon", "9223372036854775807");
  const option = fc.oneof(
    fc.constantFrom(["NX"], ["xx"], ["GET"], ["PX"], ["BOGUS"]),
    fc.tuple(fc.constantFrom("PX", "ex"), life).map(([unit, amount]) => [unit, amount]),
  );
  const command: fc.Arbitrary<Command> = fc.oneof(
    fc.tuple(fc.constantFrom("GET", "INCR", "HGETALL", "TYPE", "PTTL", "ttl", "DEL", "UNLINK", "EXISTS"), key),
    fc.tuple(fc.constantFrom("INCRBY", "HGET", "HDEL", "RPUSH", "ECHO", "SET"), key, text),
    fc.tuple(fc.constantFrom("MGET", "DEL", "EXISTS", "PING", "HDEL"), key, key),
    fc.tuple(fc.constant("HSET"), fc.constantFrom("hash", "other"), text, text),
    fc.tuple(fc.constant("RPUSH"), fc.constantFrom("list", "other"), text),
    fc.tuple(fc.constant("HSET"), key, text, text, text),
    fc.tuple(fc.constant("PEXPIRE"), key, life),
    fc
      .tuple(key, text, fc.array(option, { maxLength: 3 }))
      .map(([name, value, options]) => ["SET", name, value, ...options.flat()]),
    fc.constantFrom(
      ["DBSIZE"],
      ["PING"],
      ["ECHO"],
      ["GET"],
      ["TIME", "now"],
      ["FLUSHALL", "soon"],
      ["flushall", "async"],
      ["EVAL", "return 1", 2, "key"],
      ["EVAL", "return 1", -1],
      ["EVAL", "return 1", "many"],
      ["EVALSHA", "f".repeat(40), 0],
      ["FROBNICATE", "a", `b${"c".repeat(200)}`],
      ["Frobnicate"],
    ),
  );

  test("give the same reply or error to any sequence of plain commands", async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(command, { minLength: 1, maxLength: 40 }), async (commands) => {
        await pair.clear();
        for (const each of commands) await pair.both((client) => client.execute(each));
      }),
      { numRuns: 300 },
    );
  });
});
