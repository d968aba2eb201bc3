/**
 * createCache: values that one caller builds and all others share, so that an expiry is not a stampede.
 *
 * @module
 */
import { fromPayload, isTooLong, jsonCodec, toPayload } from "./cache/codec.ts";
import { demand } from "./cache/context.ts";
import { createFlights, type Flights } from "./cache/flights.ts";
import { type Build, type CacheOptions, checkOptions, type GetOptions, type StoreOptions } from "./cache/options.ts";
import { type Given, livesOf } from "./cache/reader.ts";
import { storeValue, voidEntry } from "./cache/write.ts";
import type { CommandClient } from "./command.ts";
import { type Environment, systemEnvironment } from "./environment.ts";
import { failure } from "./errors.ts";
import { cacheKey } from "./keys.ts";
import { createNode } from "./node.ts";
import { electScript } from "./scripts/elect.ts";
import { checkClient, checkFunction, checkName, checkPrefix } from "./validate.ts";

/** A value and where it came from. */
export interface CacheEntry<T> {
  /** As it is stored, read again: also for the caller that built it, so that all callers get the same. */
  readonly value: T;
  /**
   * "hit": it was there. "stale": it is not fresh any more, but another builds, or a build failed or is slow. "built":
   * this call built it. "waited": another built it while this call ran.
   */
  readonly status: Given["status"];
  /** Larger than that of any value stored before under this key; 0 for one that was built without Redis. */
  readonly fence: number;
  /** Whether it is known to have been stored. */
  readonly stored: boolean;
  /** Requests sent for this call; those that it shared with another call count there. */
  readonly requests: number;
}

/** A value that a read may serve. */
export interface CachePeek<T> {
  readonly value: T;
  readonly fence: number;
  /** How long it is still fresh; 0 where it is old, and served only to those who take old values. */
  readonly freshMs: number;
}

/** A guarded cache. Holds no values itself. */
export interface Cache {
  /**
   * The value under a key: stored, or built by this call, or by another that this one waits for.
   *
   * @throws LockError "build-failed" (the cause is the build's own error, where it ran in this process), "timeout" or
   * "contended" when another builds for longer than `waitMs`, "unavailable", "aborted", "config", also for a build that
   * asks for its own key, where the runtime has `process.getBuiltinModule` to tell it
   */
  get<T>(key: string, options: GetOptions, build: Build<T>): Promise<T>;
  /** As `get`, with where the value came from. */
  getEntry<T>(key: string, options: GetOptions, build: Build<T>): Promise<CacheEntry<T>>;
  /**
   * Stores a value; no build that began earlier can store any more. Where it fails after its first of two requests,
   * readers wait for up to 5 s before one of them builds.
   *
   * @returns false when it was not stored, as an invalidation or a later `set` came in between
   * @throws LockError "unavailable" when Redis gave no definite answer: it may be stored or not; "config"
   */
  set(key: string, value: unknown, options: StoreOptions): Promise<boolean>;
  /**
   * Drops the value. Once it has resolved, no read that begins later gets what was built before. `DEL` of the key from
   * any tool does the same. With `soft` the value is only no longer fresh: reads that take an old one may have it, for as
   * long as it would have been of use.
   *
   * @throws LockError "unavailable" when Redis gave no definite answer: the old value may still be there; "config"
   */
  invalidate(key: string, options?: { readonly soft?: boolean | undefined }): Promise<void>;
  /**
   * What stands under a key, or undefined. Neither builds nor waits.
   *
   * @throws LockError "unavailable", "config"
   */
  peek<T>(key: string): Promise<CachePeek<T> | undefined>;
}

/**
 * Creates a guarded cache on one Redis. Sends nothing yet.
 *
 * Promised: a value is stored only by a build that is still the elected one, so one that began before an invalidation
 * is never stored after it, nor over a newer value. On a healthy Redis at most one build a key runs at a time: it is
 * renewed while it runs. Not promised: that a build runs once; a lost lease, an eviction or a failover can start another.
 *
 * @throws LockError "config" when an option is out of bounds or the client is none
 *
 * @example
 * ```ts
 * import { createCache } from "leasehold";
 * import { memoryClient } from "leasehold/memory";
 *
 * const cache = createCache(memoryClient());
 * const price = await cache.get("price:42", { freshMs: 60_000 }, async () => ({ cents: 1_999 }));
 * console.log(price.cents);
 * await cache.invalidate("price:42");
 * ```
 */
export function createCache(client: CommandClient, options?: CacheOptions, environment?: Environment): Cache {
  const { prefix = "cache", codec = jsonCodec, observe, waitUntil } = options ?? {};
  checkPrefix(prefix);
  checkFunction("observe", observe, true);
  checkFunction("waitUntil", waitUntil, true);
  checkFunction("codec.decode", codec?.decode);
  const node = createNode(checkClient(client), 1);
  let flights: Flights | undefined;
  const begin = (key: string) => {
    flights ??= createFlights({
      env: environment ?? systemEnvironment(), // some runtimes forbid it earlier
      node,
      codec,
      observe,
      prefix: `c${JSON.stringify([codec.name, codec.version])}`,
    });
    return {
      ...flights,
      doing: {
        name: key,
        key: cacheKey(prefix, checkName("key", key)),
        startedAt: flights.context.env.clock.now(),
        requests: 0,
      },
    };
  };

  const cache: Cache = {
    async get(key, options, build) {
      return (await cache.getEntry(key, options, build)).value;
    },
    async getEntry<T>(key: string, options: GetOptions, build: Build<T>) {
      checkFunction("build", build);
      const { context, doing, read } = begin(key);
      const { payload, ...given } = await read(checkOptions({ ...doing, build }, options, waitUntil));
      return { value: (await fromPayload(context, key, payload)) as T, ...given };
    },
    async set(key, value, options) {
      const { context, doing, detach } = begin(key);
      const lives = livesOf(checkOptions(doing, options));
      const payload = await toPayload(context, key, value);
      if (isTooLong(context, payload)) throw failure("config", "store", key, "it is longer than maxLength");
      return storeValue(context, doing, payload, lives).finally(() => detach(doing));
    },
    async invalidate(key, options) {
      const { context, doing, detach } = begin(key);
      // Also when it is unknown what has happened: later readers join nothing that is under way.
      await voidEntry(context, doing, options?.soft ? 1 : 0).finally(() => detach(doing));
    },
    async peek<T>(key: string) {
      const { context, doing } = begin(key);
      const {
        reply: { payload, fence, leftMs },
      } = await demand("peek", context, doing, electScript, ["", 0, context.prefix, 0]);
      return payload ? { value: (await fromPayload(context, key, payload)) as T, fence, freshMs: leftMs } : undefined;
    },
  };
  return cache;
}
