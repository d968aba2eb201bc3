/** The shipped algorithms on a Redis Cluster, where every key of one operation must stand in one slot. */
import fc from "fast-check";
import { Cluster, Redis } from "ioredis";
import { Cluster as Cluster5 } from "ioredis-5";
import { afterAll, beforeAll, expect, test } from "vitest";
import { ioredisClient } from "../adapters/ioredis.ts";
import { createCache } from "../src/cache.ts";
import type { CommandClient } from "../src/command.ts";
import { fencedSet } from "../src/fence.ts";
import { inspectLock } from "../src/inspect.ts";
import { cacheKey, fenceKeyOf, lockKeys } from "../src/keys.ts";
import { createLock } from "../src/lock.ts";
import { acquireScript } from "../src/scripts/acquire.ts";
import { lockContract } from "./contract/lock.ts";
import { type RunningCluster, startCluster } from "./support/cluster.ts";
import { shortened } from "./support/one-redis.ts";
import { describeRedis } from "./support/redis.ts";

interface ClusterInstance {
  call(command: string, ...args: (string | number)[]): Promise<unknown>;
  disconnect(): void;
}

const pipelined = { enableAutoPipelining: true };
// As its documentation says: by itself it takes the slot of a script from its source. redis/ioredis#2109.
const pipelined5 = { ...pipelined, autoPipeliningIgnoredCommands: ["EVAL", "EVALSHA"] };

const instances: Record<string, (port: number) => ClusterInstance> = {
  "ioredis 6": (port) => new Cluster([{ host: "127.0.0.1", port }], pipelined),
  "ioredis 5": (port) => new Cluster5([{ host: "127.0.0.1", port }], pipelined5),
};

/** Made of all that decides about the slot, and of what surrounds it. */
const unit = fc.constantFrom(
  "a",
  "b",
  "{",
  "}",
  "{}",
  "{a}",
  "%",
  "%7B",
  ":",
  ":fence",
  ":void:",
  "é",
  "😀",
  "\n",
  "\0",
);
const hostile = fc.string({ unit, minLength: 1, maxLength: 8 }).filter(isAllowed);
const plain = fc.uuid().map((id) => `invoice:${id}`);
const hundred = fc.uniqueArray(fc.oneof(hostile, plain), { minLength: 100, maxLength: 100 });

for (const [name, connect] of Object.entries(instances)) {
  describeRedis(`a Redis Cluster of three masters, through an auto-pipelining Cluster of ${name}`, () => {
    let cluster: RunningCluster;
    let redis: ClusterInstance;
    let client: CommandClient;
    let masters: Redis[];
    beforeAll(async () => {
      cluster = await startCluster();
      masters = cluster.ports.map((port) => new Redis(port, "127.0.0.1"));
      redis = connect(cluster.port);
      client = ioredisClient(redis);
    }, 30_000);
    afterAll(async () => {
      redis.disconnect();
      for (const master of masters) master.disconnect();
      await cluster.stop();
    });

    /** The keys of each master. */
    const keys = (): Promise<string[][]> => Promise.all(masters.map((master) => master.keys("*")));
    const slot = (key: string): Promise<number> => masters[0]?.cluster("KEYSLOT", key) ?? expect.fail("no masters");
    const expectOneSlot = async (...keys: string[]): Promise<void> => {
      expect(new Set(await Promise.all(keys.map(slot))).size, `one slot for ${JSON.stringify(keys)}`).toBe(1);
    };
    const clear = (): Promise<unknown> => Promise.all(masters.map((master) => master.flushall()));

    test("would refuse keys of several slots, so that what follows says something", async () => {
      await expect(masters[0]?.eval("return 1", 2, "a", "b")).rejects.toThrow(/^CROSSSLOT /);
      await expect(client.execute(["EVAL", "return 1", 2, "a", "b"])).rejects.toThrow(/slot/);
    });

    test("E07 a hundred locks at once, of random and hostile names, are all held", async () => {
      await fc.assert(
        fc.asyncProperty(hundred, async (names) => {
          await clear();
          const lock = createLock(client, { leaseMs: 60_000, waitMs: 0 });
          const leases = await Promise.all(names.map((name) => lock.acquire(name)));
          for (const lease of leases) lease.assertHeld();
          expect(await Promise.all(leases.map(({ key }) => client.execute(["GET", key])))).toEqual(
            leases.map(({ token }) => token),
          );
          for (const stored of await keys()) expect(stored.length).toBeGreaterThan(0);
          const outcomes = await Promise.all(leases.map((lease) => lease.release()));
          expect(outcomes).toEqual(leases.map(() => "released"));
        }),
        { numRuns: 3, endOnFailure: true },
      );
    });

    test("E04 all keys of a lock are in one slot, the tombstone of a doubtful try among them", async () => {
      await fc.assert(
        fc.asyncProperty(hundred, async (names) => {
          await clear();
          const lock = createLock(losingFirstReplies(client), { leaseMs: 60_000, waitMs: 0 });
          const leases = await Promise.all(names.map((name) => lock.acquire(name)));
          const outcomes = await Promise.all(leases.map((lease) => lease.release()));
          expect(outcomes).toEqual(leases.map(() => "released"));
          const stored = new Set((await keys()).flat());
          for (const { key, token } of leases) {
            expect([...stored]).toEqual(expect.arrayContaining([`${key}:fence`, `${key}:void:${token}`]));
            await expectOneSlot(key, `${key}:fence`, `${key}:void:${token}`);
          }
          expect(stored.size).toBe(200);
        }),
        { numRuns: 2, endOnFailure: true },
      );
    });

    const reported = ["a", "user:{1}:x", "{}", "x}y{z", "{a}{b}", "日本"];
    test.for(reported)("E04 the lock and the cache of %j share a slot, and all operations work there", async (name) => {
      const { lock: key, fence, tombstone } = lockKeys("lock", name);
      await expectOneSlot(key, fence, tombstone("t1"), cacheKey("cache", name));
      const lock = createLock(client);
      const lease = await lock.acquire(name);
      expect(await lock.tryAcquire(name)).toBeNull();
      await lease.extend(60_000);
      expect(await inspectLock(client, name)).toMatchObject({
        held: true,
        token: shortened(lease),
        fence: lease.fence,
      });
      const cache = createCache(client);
      expect(await cache.get(name, { freshMs: 60_000 }, () => 1)).toBe(1);
      expect((await cache.peek(name))?.value).toBe(1);
      await cache.invalidate(name);
      expect(await cache.set(name, 2, { freshMs: 60_000 })).toBe(true);
      expect(await lease.release()).toBe("released");
    });

    test("E04 a hundred entries of a cache are built, read, set and invalidated at once", async () => {
      await fc.assert(
        fc.asyncProperty(hundred, async (names) => {
          await clear();
          const cache = createCache(client);
          const fresh = { freshMs: 60_000 };
          const entries = () =>
            Promise.all(names.map((name, index) => cache.getEntry(name, fresh, async () => `${index}`)));
          const values = names.map((_, index) => `${index}`);
          const built = await entries();
          expect(built.map(({ value }) => value)).toEqual(values);
          expect(built.every(({ status, stored }) => status === "built" && stored)).toBe(true);
          expect((await entries()).every(({ status }) => status === "hit")).toBe(true);
          for (const stored of await keys()) expect(stored.length).toBeGreaterThan(0);
          await Promise.all(names.map((name) => cache.invalidate(name)));
          expect((await entries()).every(({ status }) => status === "built")).toBe(true);
          const written = await Promise.all(names.map((name) => cache.set(name, "set", fresh)));
          expect(written).toEqual(names.map(() => true));
          expect((await entries()).map(({ value }) => value)).toEqual(names.map(() => "set"));
        }),
        { numRuns: 2, endOnFailure: true },
      );
    });

    test("E04 a build that fails is reported as that, and its back-off reaches the next reader", async () => {
      const cache = createCache(client);
      const failing = () => Promise.reject(new Error("no data"));
      const options = { freshMs: 60_000, waitMs: 0 };
      for (let reader = 0; reader < 2; reader += 1) {
        await expect(cache.get("x}y{z", options, failing)).rejects.toMatchObject({ code: "build-failed" });
      }
    });

    test.for(["report", "reports:{42}", "{a}{b}", "日本"])(
      "E04 fencedSet() of %j and its fence are in one slot",
      async (key) => {
        expect(await fencedSet(client, { key, value: "new", fence: 2 })).toBe(true);
        expect(await fencedSet(client, { key, value: "old", fence: 1 })).toBe(false);
        expect(await client.execute(["GET", key])).toBe("new");
        await expectOneSlot(key, fenceKeyOf(key));
      },
    );

    lockContract("createLock()", async () => ({
      createLock: (options) => createLock(client, options),
      clients: [client],
      close: async () => {},
    }));
  });
}

/** Some names are refused, as they could be taken for a derived key of another: keys.test.ts. */
function isAllowed(name: string): boolean {
  try {
    lockKeys("lock", name);
    return true;
  } catch {
    return false;
  }
}

/** Every first try to acquire a name is granted, and nobody learns of it: the lease is one of a doubtful token. */
function losingFirstReplies(client: CommandClient): CommandClient {
  const tried = new Set<string>();
  return {
    label: client.label,
    async execute(command, options) {
      const reply = await client.execute(command, options);
      const [, source, , key] = command;
      if (source !== acquireScript.source || tried.has(String(key))) return reply;
      tried.add(String(key));
      throw new Error("ECONNRESET");
    },
  };
}
