/**
 * Tells at once that a build asks for its own key. Whoever does not import it pays nothing for it.
 *
 * @module
 */
import type { Cache, CacheEntry } from "../cache.ts";
import { failure } from "../errors.ts";
import { type AsyncContext, createAsyncContext } from "../host.ts";
import type { Build, GetOptions } from "./options.ts";

/**
 * The same cache, in which a build that asks for its own key, itself or by way of other builds, is refused at once with
 * the error "config". In the plain cache, and where the runtime cannot tell in which build a call is made, such a call
 * waits for itself until its `waitMs` is over; so do two builds that ask for each other's key everywhere. Needs
 * `AsyncLocalStorage` behind `process.getBuiltinModule`: Node 22.3, Bun, Deno, and Workers with `nodejs_compat`.
 *
 * @example
 * ```ts
 * import { createCache, detectReentry, isLockError } from "leasehold";
 * import { memoryClient } from "leasehold/memory";
 *
 * const cache = detectReentry(createCache(memoryClient()));
 * const options = { freshMs: 60_000 };
 * const mistaken = cache.get("a", options, () => cache.get("a", options, () => 1));
 * await mistaken.catch((error) => console.log(isLockError(error.cause, "config"))); // true
 * ```
 */
export function detectReentry(cache: Cache): Cache {
  let builds: AsyncContext<readonly string[]> | undefined;
  const guarded: Cache = {
    ...cache,
    async get(key, options, build) {
      return (await guarded.getEntry(key, options, build)).value;
    },
    async getEntry<T>(key: string, options: GetOptions, build: Build<T>): Promise<CacheEntry<T>> {
      builds ??= createAsyncContext();
      const outer = builds?.getStore() ?? [];
      if (outer.includes(key)) throw failure("config", "get", key, "its own build asks for it");
      if (typeof build !== "function") return cache.getEntry(key, options, build);
      return cache.getEntry(key, options, async (context) => {
        const keys = [...outer, key];
        const run = async (): Promise<T> => build(context);
        try {
          return await (builds ? builds.run(keys, run) : run());
        } finally {
          keys.length = 0; // what goes on after its build is not in it
        }
      });
    },
  };
  return guarded;
}
