/**
 * Readers, invalidators and doubled requests on a real Redis: nobody is given what was built before an invalidation that
 * was over before the read began, and no two builds have one fence.
 *
 * @module
 */
import { type Cache, createCache } from "../../src/cache.ts";
import type { Command, CommandClient, Reply } from "../../src/command.ts";
import { electScript } from "../../src/scripts/elect.ts";

const processes = 6;
const readersEach = 4;
const keys = ["a", "b"];

/** What a run saw. */
export interface Seen {
  reads: number;
  builds: number;
  invalidations: number;
  refused: number;
  /** Reads that were given an old value, as they may. */
  oldReads: number;
  /** Reads that were given what was void before they began. */
  staleReads: number;
  sharedFences: number;
}

/** When a run ends, if it sees nothing wrong before. */
export interface Length {
  readonly reads?: number;
  readonly ms?: number;
}

/** Runs until so many reads or ms are over, or something wrong was seen; `mutate` may change any command on its way. */
export async function stress(
  connect: () => CommandClient,
  { reads = Infinity, ms = Infinity }: Length,
  mutate: (command: Command) => Command = (command) => command,
): Promise<Seen> {
  const seen: Seen = {
    ...{ reads: 0, builds: 0, invalidations: 0, refused: 0 },
    ...{ oldReads: 0, staleReads: 0, sharedFences: 0 },
  };
  const startedAt = performance.now();
  const direct = connect();
  await direct.execute(["FLUSHALL"]);
  /** What the cache stands in front of, and the version below which nobody may read any more. */
  const source = new Map(keys.map((key) => [key, 0]));
  const floor = new Map(keys.map((key) => [key, 0]));
  /** The same for what is given as fresh, which a soft invalidation raises too. */
  const freshFloor = new Map(keys.map((key) => [key, 0]));
  const fences = new Set<string>();
  /** The latest election that was won: its late copy is the most dangerous one. */
  const winner = new Map<string, Command>();
  const over = (): boolean =>
    seen.reads >= reads || performance.now() - startedAt >= ms || seen.staleReads + seen.sharedFences > 0;

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
      const [least, leastFresh] = [floor.get(key) ?? 0, freshFloor.get(key) ?? 0];
      const options = { freshMs: pick([2, 20]), staleMs: pick([0, 10]), leaseMs: 10, waitMs: 60_000 };
      const { value, status } = await cache.getEntry(key, options, ({ fence }) => build(key, fence));
      if (value < (status === "stale" ? least : leastFresh)) seen.staleReads += 1;
      if (status === "stale") seen.oldReads += 1;
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
      const soft = chance(0.3);
      await cache.invalidate(key, { soft });
      for (const raised of soft ? [freshFloor] : [freshFloor, floor])
        raised.set(key, Math.max(version, raised.get(key) ?? 0));
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
