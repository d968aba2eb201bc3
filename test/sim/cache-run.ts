/** Runs caches: the shipped one, in each process, over one node. */
import { type Cache, createCache } from "../../src/cache.ts";
import { cacheKey } from "../../src/keys.ts";
import { CacheChecker } from "./cache-checker.ts";
import { Changer, Reader } from "./cache-workload.ts";
import { Network } from "./network.ts";
import type { CacheProfile } from "./profiles.ts";
import { makeTrouble } from "./trouble.ts";
import type { Score, World } from "./world.ts";

export async function runCaches(world: World, profile: CacheProfile): Promise<Score> {
  const { timeline, fate, processes, nodes, report } = world;
  const { lengthMs, trouble } = profile;
  const checker = new CacheChecker(timeline, fate, profile, report);
  const network = new Network(timeline, fate, profile.network, checker);
  const [node] = nodes;
  if (node === undefined) throw new Error("A cache needs a node");
  const actors = processes.flatMap((process, place) => {
    const kept: Promise<unknown>[] = [];
    const options = profile.isWorker ? { waitUntil: (work: Promise<unknown>) => void kept.push(work) } : {};
    const cache: Cache = createCache(network.client(process, node), options, process.environment);
    const shared = {
      profile,
      timeline,
      fate,
      checker,
      report,
      process,
      cache,
      kept,
      requests: () => network.sentBy(process),
    };
    // A key has one changer, so that what it sets is never older than what another has told. Where there is one reader a
    // process does one thing at a time.
    const changers = place < profile.keys ? [new Changer(shared, `k${place}`)] : [];
    if (profile.readers === 1 && changers.length > 0) return changers;
    const readers = Array.from({ length: profile.readers }, (_, reader) => new Reader(shared, reader));
    return [...readers, ...changers];
  });
  const key = cacheKey("cache", "k0");
  makeTrouble({ timeline, fate, processes, nodes, lengthMs, key, forgot: () => {} }, trouble);

  for (const actor of actors) void actor.run();
  await world.run();
  if (actors.some(({ isBusy }) => isBusy)) report("I16", "a call has never settled");
  return { requests: network.sent, queued: network.queued, progress: checker.progress, overlaps: 0, orphanMs: 0 };
}
