/** Counts what each operation costs, as Redis itself counts it, and holds the README's table and the design to it. */
import { Redis } from "ioredis";
import { afterAll, beforeAll, expect, test } from "vitest";
import { ioredisClient } from "../adapters/ioredis.ts";
import { createCache } from "../src/cache.ts";
import type { CommandClient, Reply } from "../src/command.ts";
import { createLock } from "../src/lock.ts";
import { createRedlock } from "../src/redlock.ts";
import { describeRedis, startRedis } from "./support/redis.ts";
import { textOf } from "./support/text-of.ts";

/** Without what only lines up the columns of its tables. */
const readme = textOf("README.md").replace(/ {2,}\|/g, " |");

describeRedis("the cost of an operation", () => {
  const parts = new AsyncDisposableStack();
  let redis: Redis;
  beforeAll(async () => {
    const server = await startRedis();
    parts.defer(server.stop);
    redis = new Redis(server.port, "127.0.0.1");
    parts.defer(() => redis.disconnect());
  });
  afterAll(() => parts.disposeAsync());

  test("is what the README says, in requests and in commands inside the scripts", async () => {
    const { client, spent } = metered(redis);
    const rows: string[] = [];
    const count = async <T>(operation: string, run: () => Promise<T>): Promise<T> => {
      spent();
      const result = await run();
      const requests = spent();
      rows.push(`| ${operation} | ${requests.length} | ${requests.reduce((sum, inner) => sum + inner, 0)} |`);
      return result;
    };

    const lock = createLock(client);
    const lease = await count("acquire", () => lock.acquire("a"));
    await count("a try while another holds it", () => lock.tryAcquire("a"));
    await count("extend, renew", () => lease.extend(20_000));
    await count("release", () => lease.release());
    const cache = createCache(client);
    const read = (): Promise<number> => cache.get("a", { freshMs: 60_000 }, () => 42);
    await count("cache: rebuild", read);
    await count("cache: hit", read);
    await count("cache: set", () => cache.set("a", 43, { freshMs: 60_000 }));
    await count("cache: invalidate", () => cache.invalidate("a"));
    // While another builds, which the read below does not wait for.
    const windows = { freshMs: 60_000, staleMs: 60_000 };
    await cache.set("old", 44, windows);
    await cache.invalidate("old", { soft: true });
    await createCache(ioredisClient(redis)).get(
      "old",
      { ...windows, waitUntil: () => {} },
      () => new Promise(() => {}),
    );
    await count("cache: an old value", () => cache.get("old", windows, () => 45));

    const start = readme.indexOf("| operation |");
    const table = readme.slice(start, readme.indexOf("\n\n", start)).split("\n").slice(2);
    expect([...table].sort()).toEqual([...rows].sort());
  });

  test("of a lock whose try was never answered is 4 commands a try, and 3 for the release and its tombstone", async () => {
    const { client, spent } = metered(redis, { unanswered: 1 });
    const lease = await createLock(client).acquire("doubtful");
    const tries = spent();
    expect(tries).toHaveLength(2);
    expect(tries[0]).toBe(4);
    expect(tries[1]).toBeLessThanOrEqual(4);
    expect(await lease.release()).toBe("released");
    expect(spent()).toEqual([3]);
    expect(await redis.exists(`${lease.key}:void:${lease.token}`)).toBe(1);
  });

  test("of a cache is 4 commands for a won election, and 5 at most for what stores the value", async () => {
    const { client, spent } = metered(redis);
    const cache = createCache(client);
    const options = { freshMs: 60_000 };
    await cache.get("cold", options, () => 1);
    const [election, commit, ...more] = spent();
    expect(election).toBe(4);
    expect(commit).toBeLessThanOrEqual(5);
    expect(more).toEqual([]);

    await cache.set("cold", 2, options);
    const [forced, stored] = spent();
    expect(forced).toBe(4);
    expect(stored).toBeLessThanOrEqual(5);

    await cache.peek("cold");
    expect(spent()).toEqual([2]);
    const failing = cache.get("failing", options, () => Promise.reject(new Error("no data")));
    await expect(failing).rejects.toMatchObject({ code: "build-failed" });
    const [elected, failed] = spent();
    expect(elected).toBe(4);
    expect(failed).toBeLessThanOrEqual(5);
  });

  test("of an old value is one request, and one behind it for the new one", async () => {
    const { client, spent } = metered(redis);
    const cache = createCache(client);
    const windows = { freshMs: 60_000, staleMs: 60_000 };
    await cache.set("aged", "old", windows);
    await cache.invalidate("aged", { soft: true });
    spent();
    const work: Promise<unknown>[] = [];
    const waitUntil = (promise: Promise<unknown>): void => void work.push(promise);
    expect(await cache.get("aged", { ...windows, waitUntil }, () => "new")).toBe("old");
    expect(spent()).toEqual([4]);
    await Promise.all(work);
    expect(spent()).toEqual([4]);
    expect(await cache.get("aged", windows, () => "other")).toBe("new");
    expect(spent()).toEqual([2]);
  });

  test("of a late builder's commit is no more, and it brings the newer value along", async () => {
    const { client, spent } = metered(redis);
    const cache = createCache(client);
    const value = await cache.get("late", { freshMs: 60_000 }, async () => {
      await cache.set("late", "newer", { freshMs: 60_000 });
      spent();
      return "older";
    });
    expect(value).toBe("newer");
    const [commit, ...more] = spent();
    expect(commit).toBeLessThanOrEqual(5);
    expect(more).toEqual([]);
  });

  test("of a Redlock is, on each node, that of a lock", async () => {
    const { client, spent } = metered(redis);
    const lock = createRedlock([client]);
    const lease = await lock.acquire("quorum");
    expect(spent()).toEqual([4]);
    await lock.tryAcquire("quorum");
    expect(spent()).toEqual([2]);
    await lease.extend(20_000); // what is left at once after the grant may be all that was asked for
    expect(spent()).toEqual([3]);
    await lease.release();
    expect(spent()).toEqual([2]);
  });
});

/**
 * A client that sends as one over HTTP does, always EVAL and one at a time here, and the commands that Redis ran inside
 * each since the last call of `spent`.
 */
function metered(
  redis: Redis,
  { unanswered = 0 }: { readonly unanswered?: number } = {},
): { readonly client: CommandClient; spent(): number[] } {
  const backing = ioredisClient(redis);
  let unansweredLeft = unanswered;
  let requests: number[] = [];
  const execute: CommandClient["execute"] = async (command, options): Promise<Reply> => {
    await redis.config("RESETSTAT");
    const reply = await backing.execute(command, options);
    const stats = [...(await redis.info("commandstats")).matchAll(/^cmdstat_([a-z|]+):calls=(\d+)/gm)];
    const inner = stats.filter(([, name = ""]) => !/^(config|info|eval)/.test(name));
    requests.push(inner.reduce((sum, [, , calls]) => sum + Number(calls), 0));
    if (unansweredLeft > 0) {
      unansweredLeft -= 1;
      throw new Error("ECONNRESET");
    }
    return reply;
  };
  const spent = (): number[] => {
    const since = requests;
    requests = [];
    return since;
  };
  return { client: { execute }, spent };
}
