/**
 * Builds products before anyone asks for them.
 *
 * @module
 */
import { type CommandClient, createCache, createLock } from "leasehold";
import { loadProduct } from "../stampede/product.ts";

/** A product is served for a minute; for another, while it is rebuilt; and for an hour, when it cannot be. */
export const lifetimes = { freshMs: 60_000, staleMs: 60_000, errorMs: 3_600_000 };

/**
 * Builds those of the products that are not there. Cloudflare may begin a run of the cron while the last one is still at
 * work: that one then does nothing.
 *
 * @returns whether this run did the work
 */
export async function warmUp(client: CommandClient, originUrl: string, ids: readonly string[]): Promise<boolean> {
  const [lock, cache] = [createLock(client), createCache(client)];
  const { ran } = await lock.tryWithLock("warm-up", async (lease) => {
    for (const id of ids) {
      lease.assertHeld(); // else another run has taken over
      // No old value for this reader: it is the one that builds.
      await cache.get(`product:${id}`, { ...lifetimes, staleMs: 0, signal: lease.signal }, ({ signal }) =>
        loadProduct(originUrl, id, signal),
      );
    }
  });
  return ran;
}
