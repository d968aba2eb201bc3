/**
 * Readers, invalidators and doubled requests on a real Redis: nobody reads what was built before an invalidation that
 * ended before the read began, and no two builds have one fence.
 *
 * A run ends after a number of reads, or at the first violation. The script without its fence check must not survive.
 */
import { Redis } from "ioredis";
import { afterAll, beforeAll, expect, test } from "vitest";
import { ioredisClient } from "../../adapters/ioredis.ts";
import { type Cache, createCache } from "../../src/cache.ts";
import type { Command, CommandClient, Reply } from "../../src/command.ts";
import { commitScript } from "../../src/scripts/commit.ts";
import { electScript } from "../../src/scripts/elect.ts";
import { describeRedis, type RunningRedis, startRedis } from "../support/redis.ts";

const processes = 5;
const readersEach = 4;
const keys = ["a", "b"];

/** What a run saw. */
interface Seen {
  reads: number;
  builds: number;
  invalidations: number;
  refused: number;
  staleReads: number;
  sharedFences: number;
}

describeRedis("a guarded cache under stress", () => {
  let server: RunningRedis;
  const connections: Redis[] = [];
  beforeAll(async () => {
    server = await startRedis();
  });
  afterAll(async () => {
    for (const connection of connections) connection.disconnect();
    await server.stop();
  });
  const connect = (): CommandClient => {
    const redis = new Redis(server.port, "127.0.0.1");
    connections.push(redis);
    return ioredisClient(redis);
  };

  test("serves nothing stale and gives no fence twice", { timeout: 60_000 }, async () => {
    const seen = await stress(connect, 1_500, (command) => command);
    expect(seen).toMatchObject({ staleReads: 0, sharedFences: 0 });
    // Else it has not been under stress.
    expect(seen.builds).toBeGreaterThan(100);
    expect(seen.invalidations).toBeGreaterThan(50);
    expect(seen.refused).toBeGreaterThan(10);
  });

  test.each([
    ["the fence", " and h.lf == ARGV[2]", ""],
    ["the token and the fence", "h.t == ARGV[1] and h.lf == ARGV[2]", "true"],
  ])("35: is failed by a commit that does not check %s", { timeout: 60_000 }, async (_, check, instead) => {
    expect(commitScript.source).toContain(check);
    const mutant = commitScript.source.replace(check, instead);
    const seen = await stress(connect, 200_000, ([verb = "", source = "", ...rest]) => [
      verb,
      source === commitScript.source ? mutant : source,
      ...rest,
    ]);
    expect(seen.staleReads).toBeGreaterThan(0);
  });
});

async function stress(
  connect: () => CommandClient,
  reads: number,
  mutate: (command: Command) => Command,
): Promise<Seen> {
  const seen: Seen = { reads: 0, builds: 0, invalidations: 0, refused: 0, staleReads: 0, sharedFences: 0 };
  const direct = connect();
  await direct.execute(["FLUSHALL"]);
  /** What the cache stands in front of, and the version below which nobody may read any more. */
  const source = new Map(keys.map((key) => [key, 0]));
  const floor = new Map(keys.map((key) => [key, 0]));
  const fences = new Set<string>();
  /** The latest election that was won: its late copy is the most dangerous one. */
  const winner = new Map<string, Command>();
  const over = (): boolean => seen.reads >= reads || seen.staleReads + seen.sharedFences > 0;

  const unreliable = (client: CommandClient): CommandClient => ({
    async execute(original): Promise<Reply> {
      const command = mutate(original);
      const reply = await client.execute(command);
      const elects = command[1] === electScript.source;
      if (elects && electScript.decode(reply)?.type === "won") winner.set(String(command[3]), command);
      if (chance(elects ? 0.1 : 0.2))
        void pause(10 * Math.random())
          .then(() => client.execute(command))
          .catch(() => {});
      return reply;
    },
  });

  const build = async (key: string, fence: number): Promise<number> => {
    seen.builds += 1;
    if (fences.has(`${key} ${fence}`)) seen.sharedFences += 1;
    fences.add(`${key} ${fence}`);
    const version = source.get(key) ?? 0;
    await pause(15 * Math.random());
    return version;
  };
  const read = async (cache: Cache): Promise<void> => {
    while (!over()) {
      const key = pick(keys);
      const least = floor.get(key) ?? 0;
      const options = { freshMs: pick([2, 20]), leaseMs: 10, waitMs: 5_000 };
      const value = await cache.get(key, options, ({ fence }) => build(key, fence));
      if (value < least) seen.staleReads += 1;
      seen.reads += 1;
      if (chance(0.2)) await pause(2);
    }
  };
  const invalidate = async (cache: Cache): Promise<void> => {
    while (!over()) {
      await pause(10 * Math.random());
      const key = pick(keys);
      const version = (source.get(key) ?? 0) + 1;
      source.set(key, version);
      await cache.invalidate(key);
      floor.set(key, Math.max(version, floor.get(key) ?? 0));
      seen.invalidations += 1;
      const late = winner.get(`cache:{${key}}`);
      if (late !== undefined && chance(0.5)) await direct.execute(late);
    }
  };

  const observe = ({ type }: { readonly type: string }): void => {
    if (type === "commit-refused") seen.refused += 1;
  };
  const caches = Array.from({ length: processes }, () => createCache(unreliable(connect()), { observe }));
  await Promise.all([
    ...caches.flatMap((cache) => Array.from({ length: readersEach }, () => read(cache))),
    ...caches.slice(0, 2).map(invalidate),
  ]);
  return seen;
}

function pause(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}

function chance(probability: number): boolean {
  return Math.random() < probability;
}

function pick<T>(items: readonly T[]): T {
  const item = items[Math.floor(Math.random() * items.length)];
  if (item === undefined) throw new Error("Cannot pick from nothing");
  return item;
}
