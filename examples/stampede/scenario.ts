/**
 * What the demonstration does: waves of readers on one product, with invalidations between and within them.
 *
 * @module
 */
import { setTimeout as sleep } from "node:timers/promises";
import type { Figures, Wave } from "./figures.ts";
import type { Origin } from "./origin.ts";
import { ask, askPage, type Reading } from "./readers.ts";
import type { Redis } from "./redis.ts";

/** What takes part. */
export interface Stage {
  /** One for each process, all of them with the same products. */
  readonly urls: readonly string[];
  readonly redis: Pick<Redis, "requests">;
  readonly origin: Origin;
  readonly rebuildMs: number;
  /** Whether readers in one process share their requests to Redis. */
  readonly sharesRequests: boolean;
}

/** Sends `readers` readers a wave to a product that nobody has asked for before. */
export async function measure(
  { urls, redis, origin, rebuildMs, sharesRequests }: Stage,
  readers: number,
): Promise<Figures> {
  const id = crypto.randomUUID();
  const products = urls.map((url) => `${url}/products/${id}`);
  const waves: Wave[] = [];

  async function wave(
    name: string,
    [expectedRebuilds, mostRequestsPerReader]: readonly [number, number],
    read: () => Promise<Reading[]>,
  ): Promise<Reading[]> {
    const before = { rebuilds: origin.rebuilds(), requests: await redis.requests() };
    const readings = await read();
    const rebuilds = origin.rebuilds() - before.rebuilds;
    const requests = (await redis.requests()) - before.requests;
    const fewestRequestsPerReader = sharesRequests ? 0 : 1;
    waves.push({
      name,
      readings,
      rebuilds,
      requests,
      expectedRebuilds,
      fewestRequestsPerReader,
      mostRequestsPerReader,
    });
    return readings;
  }
  /** Changes the product and has the example forget it. Whoever asks from now on must get this version. */
  async function change(): Promise<number> {
    const version = origin.publish(id);
    const { status } = await fetch(String(products[0]), { method: "DELETE" });
    if (status !== 204) throw new Error(`Cannot invalidate: the example answered ${status}`);
    return version;
  }

  // The first of these opens the connections, so that nothing measured pays for them.
  await askPage(urls, readers);
  const floorMs = await askPage(urls, readers);

  await wave("cold, never built before", [1, 5], () => ask(products, readers));
  await wave("warm", [0, 1], () => ask(products, readers));

  const second = await change();
  const again = await wave("cold again", [1, 3], () => ask(products, readers));

  await change();
  let third = Number.NaN;
  let late: Reading[] = [];
  await wave("invalidated while it is rebuilt", [2, 5], async () => {
    const begun = origin.rebuilds();
    const early = ask(products, readers);
    while (origin.rebuilds() === begun) await sleep(5);
    await sleep(rebuildMs / 3);
    third = await change();
    // Long enough to see the builder that read the version before try to store it.
    late = await ask(products, readers, 2 * rebuildMs);
    return [...(await early), ...late];
  });
  const afterwards = await wave("warm again", [0, 1], () => ask(products, readers));

  const isOld = (current: number) => (reading: Reading) => reading.version < current;
  const oldValues = [again.filter(isOld(second)), late.filter(isOld(third)), afterwards.filter(isOld(third))];
  return {
    floorMs,
    waves,
    oldValues: oldValues.flat().length,
    readsAfterInvalidation: again.length + late.length + afterwards.length,
  };
}
