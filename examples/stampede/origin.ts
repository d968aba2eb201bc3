/**
 * The slow shop behind an example: holds the current version of each product and counts how often it was asked.
 *
 * @module
 */
import { setTimeout as sleep } from "node:timers/promises";
import { Hono } from "hono";
import { serve } from "./parts.ts";

/** The shop, as the demonstration sees it. */
export interface Origin {
  readonly url: string;
  /** Rebuilds begun so far, of all products. */
  rebuilds(): number;
  /** Changes a product and returns its new version. */
  publish(id: string): number;
}

/** Starts the shop. A product is read when its rebuild begins and handed out `rebuildMs` later, old by then or not. */
export async function startOrigin(parts: AsyncDisposableStack, rebuildMs: number): Promise<Origin> {
  const versions = new Map<string, number>();
  let rebuilds = 0;
  const app = new Hono();
  app.get("/products/:id", async (c) => {
    rebuilds++;
    const id = c.req.param("id");
    const version = versions.get(id) ?? 1;
    await sleep(rebuildMs);
    return c.json({ id, version });
  });
  const publish = (id: string): number => {
    const version = (versions.get(id) ?? 1) + 1;
    versions.set(id, version);
    return version;
  };
  return { url: await serve(parts, app.fetch), rebuilds: () => rebuilds, publish };
}
