/**
 * A Bun server in front of a slow shop: however many ask for a product at once, in however many processes, one of them
 * rebuilds it. Redis is reached by Bun's own client.
 *
 * Run: `npm run start:bun` (a demonstration that ends by itself). In a project of yours:
 * `REDIS_URL=redis://127.0.0.1:6379 bun server.ts`.
 *
 * @module
 */
import { RedisClient, serve } from "bun";
import { createCache } from "leasehold";
import { bunClient } from "leasehold/bun";
import { loadProduct, productIn, refusalOf } from "../stampede/product.ts";

const { REDIS_URL = "redis://127.0.0.1:6379", ORIGIN_URL: originUrl = "", PORT = "3000" } = process.env;
const cache = createCache(bunClient(new RedisClient(REDIS_URL)));

async function answer(request: Request): Promise<Response> {
  const { pathname } = new URL(request.url);
  if (pathname === "/") return new Response("GET or DELETE /products/1\n");
  if (pathname === "/health") return Response.json({ ok: true });
  const id = productIn(pathname);
  if (id === undefined) return Response.json({ error: "not found" }, { status: 404 });

  const key = `product:${id}`;
  // Anyone may call this here; in your own server put authentication in front of it.
  if (request.method === "DELETE") {
    await cache.invalidate(key);
    return new Response(null, { status: 204 });
  }
  const entry = await cache.getEntry(key, { freshMs: 60_000 }, ({ signal }) => loadProduct(originUrl, id, signal));
  // "No such product" is a value like any other, so asking for it does not reach the origin again and again.
  const headers = { "x-cache": entry.status, "x-cache-requests": String(entry.requests) };
  return entry.value === null
    ? Response.json({ error: "no such product" }, { status: 404, headers })
    : Response.json(entry.value, { headers });
}

function failed(error: unknown): Response {
  const { status, headers, body } = refusalOf(error);
  return Response.json(body, { status, headers });
}

const server = serve({
  hostname: "127.0.0.1",
  port: Number(PORT),
  fetch: (request) => answer(request).catch(failed),
});
console.log(`Listening on ${server.url}`);
