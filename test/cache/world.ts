/**
 * Caches in several processes over one in-process Redis, under one virtual clock: every event and command in sight,
 * every fault at will.
 *
 * @module
 */
import { memoryClient } from "../../adapters/memory/index.ts";
import type { CacheOptions, StoreOptions } from "../../src/cache/options.ts";
import { type Cache, createCache } from "../../src/cache.ts";
import type { Command, CommandClient } from "../../src/command.ts";
import type { LeaseholdEvent } from "../../src/events.ts";
import type { Script } from "../../src/script.ts";
import { commitScript } from "../../src/scripts/commit.ts";
import { electScript } from "../../src/scripts/elect.ts";
import { invalidateScript } from "../../src/scripts/invalidate.ts";
import { tendScript } from "../../src/scripts/tend.ts";
import { type Fault, type FaultyClient, faultyClient } from "../support/faulty-client.ts";
import { lasting, offClock, seededRandom, type VirtualClock, virtualEnvironment } from "../support/virtual-clock.ts";

export type Verb = "elect" | "commit" | "tend" | "invalidate";

const scripts: Record<Verb, Script<unknown>> = {
  elect: electScript,
  commit: commitScript,
  invalidate: invalidateScript,
  tend: tendScript,
};

/** One process: its cache, what it sent and what it told. */
export interface Process {
  readonly cache: Cache;
  readonly client: FaultyClient;
  readonly events: LeaseholdEvent[];
  /** The scripts it ran, in order. */
  verbs(): Verb[];
}

/** Decides what happens to a command of a process: by its script, and its place among the commands with that script. */
export type Faults = (verb: Verb, place: number, command: Command) => Fault | undefined;

export interface ProcessSettings {
  readonly faults?: Faults;
  readonly options?: CacheOptions;
  readonly isolatesRequests?: boolean;
  /** How far this process' wall clock is off. */
  readonly skewMs?: number;
}

export interface World {
  readonly clock: VirtualClock;
  /** The Redis itself: what is read and written here meets no fault. */
  readonly redis: CommandClient;
  process(settings?: ProcessSettings): Process;
  /** A build that takes some time, and counts how often it was called, and how many of it ran at once at the most. */
  slow<T>(ms: number, value: T | (() => T)): (() => Promise<T>) & { calls: number; most: number };
  pass(ms: number): Promise<void>;
}

/** Which script a command runs. */
export function verbOf([, source]: Command): Verb {
  for (const [verb, script] of Object.entries(scripts)) {
    if (String(source).endsWith(script.source)) return verb as Verb;
  }
  throw new Error("Cannot tell which script this is");
}

export function world(): World {
  const env = virtualEnvironment();
  const { clock } = env;
  const redis = memoryClient({ label: "memory" }, env);
  const pass = (ms: number): Promise<void> => lasting(clock, ms);
  let seed = 0;
  return {
    clock,
    redis,
    pass,
    process({ faults, options = {}, isolatesRequests = false, skewMs = 0 } = {}) {
      seed += 1;
      const places = new Map<Verb, number>();
      const client = faultyClient(redis, clock, (command) => {
        const verb = verbOf(command);
        const place = places.get(verb) ?? 0;
        places.set(verb, place + 1);
        return faults?.(verb, place, command);
      });
      const events: LeaseholdEvent[] = [];
      const own = {
        clock: offClock(clock, skewMs),
        random: seededRandom(seed),
        host: { ...env.host, isolatesRequests },
      };
      const cache = createCache(client, { observe: (event) => void events.push(event), ...options }, own);
      return { cache, client, events, verbs: () => client.sent.map(verbOf) };
    },
    slow(ms, value) {
      let running = 0;
      const build = Object.assign(
        async () => {
          build.calls += 1;
          running += 1;
          build.most = Math.max(build.most, running);
          await pass(ms);
          running -= 1;
          return value instanceof Function ? value() : value;
        },
        { calls: 0, most: 0 },
      );
      return build;
    },
  };
}

/** A world in which "old" is stored, and has been for two seconds. */
export async function aged(options: StoreOptions): Promise<World> {
  const here = world();
  await here.process().cache.set("k", "old", options);
  await here.clock.advance(2_000);
  return here;
}
