/**
 * Public reports on scripts and their keys.
 */
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import { type Command, isReplyError, type Reply, ReplyError } from "../../src/command.ts";
import { cacheKey, lockKeys } from "../../src/keys.ts";
import { createLock } from "../../src/lock.ts";
import { runScript } from "../../src/script.ts";
import { acquireScript } from "../../src/scripts/acquire.ts";
import { electScript } from "../../src/scripts/elect.ts";
import { checkName } from "../../src/validate.ts";
import { allScripts } from "../scripts/all.ts";
import { redisCalls } from "../scripts/calls.ts";
import { ScriptServer, useRedis } from "../scripts/server.ts";
import { slotOf } from "../scripts/slot.ts";
import { describeRedis } from "../support/redis.ts";

const scripts = await allScripts();

describe("E04 keys in different slots of a cluster", () => {
  const names = ["a", "user:{1}:x", "{}", "x}y{z", "{a}{b}", "日本"];

  test.for(names)("E04 all keys of the lock %j are in one slot", (name) => {
    const { lock, fence, tombstone } = lockKeys("lock", name);
    const slots = new Set([lock, fence, tombstone("t1"), cacheKey("cache", name)].map(slotOf));
    expect(slots.size).toBe(1);
  });

  test("E04 the empty name is refused", () => {
    expect(() => checkName("name", "")).toThrow(expect.objectContaining({ code: "config" }));
  });

  describeRedis("on a server that owns every slot", () => {
    const redis = new ScriptServer();
    let folder: string;
    beforeAll(async () => {
      folder = await mkdtemp(join(tmpdir(), "leasehold-cluster-"));
      await redis.start(["--cluster-enabled", "yes", "--dir", folder]);
      await redis.execute("CLUSTER", "ADDSLOTSRANGE", 0, 16_383);
      while (!String(await redis.execute("CLUSTER", "INFO")).includes("cluster_state:ok")) await sleep(20);
    });
    afterAll(async () => {
      await redis.stop();
      await rm(folder, { recursive: true });
    });

    test("E04 it refuses a script with keys of two slots", async () => {
      const attempt = redis.execute(
        "EVAL",
        acquireScript.source,
        3,
        "lock:{a}",
        "lock:{b}",
        "lock:{c}",
        "t1",
        60_000,
        "",
      );
      await expect(attempt).rejects.toHaveProperty("code", "CROSSSLOT");
    });

    test.for(names)("E04 it runs every script on the keys of %j", async (name) => {
      expect(await redis.acquire(name, "t1")).toMatchObject({ type: "granted" });
      expect(await redis.acquire(name, "t2")).toMatchObject({ type: "held" });
      expect(await redis.extend(name, "t1")).toMatchObject({ type: "extended" });
      expect(await redis.inspect(name)).toMatchObject({ type: "held", token: "t1" });
      expect(await redis.release(name, "t1", 60_000)).toEqual({ type: "deleted" });
      expect(await redis.acquire(name, "t1")).toMatchObject({ type: "cancelled" });
      const elected = await redis.run(electScript, [cacheKey("cache", name)], ["t1", 60_000, "j", 1]);
      expect(elected).toMatchObject({ type: "won" });
    });
  });
});

describe("E05 keys that a script does not declare", () => {
  const keyless = ["TIME", "INFO"];
  const allKeys = ["MGET", "DEL"];
  const firstKey = ["GET", "SET", "SETRANGE", "PTTL", "PEXPIRE", "PEXPIREAT", "HGETALL", "HMGET", "HSET", "HDEL"];

  test.for(scripts)("E05 every key that $name touches is in KEYS, and nothing but keys is", ({ script, keys }) => {
    const touched = redisCalls(script.source).flatMap(({ command, args }) => {
      if (allKeys.includes(command)) return args;
      if (firstKey.includes(command)) return args.slice(0, 1);
      return keyless.includes(command) ? [] : expect.fail(`Nothing is known of the keys of ${command}`);
    });
    const declared = keys.map((_, index) => `KEYS[${index + 1}]`);
    expect([...new Set(touched)].sort()).toEqual(declared);
    expect(script.source.match(/KEYS/g)).toHaveLength(touched.length);
    expect(script.source).not.toMatch(/\bredis\.(?!p?call\()/);
  });

  test("E05 there are scripts to look at", () => {
    expect(scripts.map(({ name }) => name)).toEqual(expect.arrayContaining(["acquire", "release", "extend"]));
  });

  describeRedis("on a server that allows the declared keys alone", () => {
    const redis = useRedis();

    test("E05 a script that touches another key is refused", async () => {
      await allowOnly(["a-key"]);
      const attempt = redis.as("script", (client) =>
        client.execute(["EVAL", "return redis.call('GET', 'other')", 1, "a-key"]),
      );
      await expect(attempt).rejects.toSatisfy(isReplyError);
    });

    test.for(scripts)("E05 $name runs", async ({ script, keys, sampleArgs }) => {
      const names = keys.map((_, index) => `key:${index}`);
      await allowOnly(names);
      const reply = await redis.as("script", (client) =>
        runScript(client, { script, keys: names, args: sampleArgs }, (command) => client.execute(command)),
      );
      expect(script.decode(reply)).toBeDefined();
    });

    async function allowOnly(keys: readonly string[]): Promise<void> {
      await redis.execute(
        "ACL",
        "SETUSER",
        "script",
        "reset",
        "on",
        "nopass",
        "+@all",
        ...keys.map((key) => `~${key}`),
      );
    }
  });
});

describe("F05 a script cache that is lost", () => {
  describeRedis("on a server that forgets its scripts", () => {
    const redis = useRedis();

    test.for(scripts)("F05 $name succeeds in 2 commands after SCRIPT FLUSH, and in 1 after that", async (file) => {
      const { script, keys, sampleArgs } = file;
      const sent: unknown[] = [];
      const run = async (): Promise<unknown> => {
        const call = { script, keys: keys.map((_, index) => `key:${index}`), args: sampleArgs };
        const reply = await runScript(redis.client, call, (command) => {
          sent.push(command[0]);
          return redis.client.execute(command);
        });
        return script.decode(reply);
      };
      await redis.execute("SCRIPT", "FLUSH");
      expect(await run()).toBeDefined();
      expect(await run()).toBeDefined();
      expect(sent).toEqual(["EVALSHA", "EVAL", "EVALSHA"]);
    });
  });

  test.for([
    "NOSCRIPT No matching script. Please use EVAL.",
    "ERR NOSCRIPT No matching script. Please use EVAL.",
    "Command 1 [ evalsha ] failed: NOSCRIPT No matching script. Please use EVAL.",
    "ERR Error running script: -NOSCRIPT No matching script",
  ])("F05 a server that always answers EVALSHA with %j is asked twice", async (message) => {
    for (const { script, sampleArgs } of scripts) {
      const sent: unknown[] = [];
      const send = async ([name]: Command): Promise<Reply> => {
        sent.push(name);
        if (name === "EVALSHA") throw new ReplyError(message);
        return 1;
      };
      expect(await runScript({ cachesScripts: true }, { script, keys: ["key"], args: sampleArgs }, send)).toBe(1);
      expect(sent).toEqual(["EVALSHA", "EVAL"]);
    }
  });
});

describeRedis("G06 a server that is out of memory", () => {
  const redis = useRedis();
  const setLimit = (bytes: number) => redis.execute("CONFIG", "SET", "maxmemory", bytes);
  afterEach(() => setLimit(0));

  test("G06 an acquire rejects with OOM and leaves nothing", async () => {
    await setLimit(1);
    await expect(redis.acquire("a", "t1")).rejects.toMatchObject({ name: "ReplyError", code: "OOM" });
    expect(await redis.inspect("a")).toEqual({ type: "free", counter: 0 });
  });

  test("G06 a lock on it is unavailable, with OOM as the cause", async () => {
    await setLimit(1);
    const lock = createLock(redis.client);
    await expect(lock.acquire("a", { waitMs: 0 })).rejects.toMatchObject({
      name: "LockError",
      code: "unavailable",
      cause: { name: "ReplyError", code: "OOM" },
    });
  });

  test("G06 a lease taken before is extended and released", async () => {
    const lease = await createLock(redis.client, { leaseMs: 60_000 }).acquire("a");
    await setLimit(1);
    await lease.extend(120_000);
    expect(lease.remaining()).toBeGreaterThan(60_000);
    expect(await lease.release()).toBe("released");
    expect(await redis.execute("EXISTS", lease.key)).toBe(0);
  });

  test("G06 OOM is told inside the text of a failed script", () => {
    const text =
      "ERR Error running script (call to f_b49ef3fbbe2dd4d2bc0b1cc9a1d3ac23d3a3ce70): @user_script:10: @user_script: 10: -OOM command not allowed when used memory > 'maxmemory'.";
    expect(new ReplyError(text).code).toBe("OOM");
  });

  test.for([0, 60_000])("G06 a release with a tombstone of %i ms deletes the lock", async (tombstoneMs) => {
    await redis.acquire("a", "t1");
    await setLimit(1);
    expect(await redis.release("a", "t1", tombstoneMs)).toEqual({ type: "deleted" });
    expect(await redis.execute("EXISTS", lockKeys("lock", "a").lock)).toBe(0);
  });

  test("G06 a roll-back that finds nothing says so, although its tombstone cannot be written", async () => {
    await setLimit(1);
    expect(await redis.release("a", "t1", 60_000)).toEqual({ type: "absent" });
    expect(await redis.execute("EXISTS", lockKeys("lock", "a").tombstone("t1"))).toBe(0);
  });

  test("G06 an extend and a contended poll work", async () => {
    await redis.acquire("a", "t1");
    await setLimit(1);
    expect(await redis.extend("a", "t1", 120_000)).toEqual({ type: "extended", remainingMs: 120_000 });
    expect(await redis.acquire("a", "t2")).toMatchObject({ type: "held" });
    expect(await redis.acquire("a", "t1")).toMatchObject({ type: "granted" });
  });
});
