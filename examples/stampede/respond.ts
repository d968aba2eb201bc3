/**
 * What a server that speaks web requests answers, whatever client its cache stands on.
 *
 * @module
 */
import type { Cache } from "leasehold";
import { loadProduct, productIn, refusalOf } from "./product.ts";

/** A fetch handler over the cache. It never rejects. */
export function respondFrom(cache: Cache, originUrl: string): (request: Request) => Promise<Response> {
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

  return (request) => answer(request).catch(failed);
}

function failed(error: unknown): Response {
  const { status, headers, body } = refusalOf(error);
  return Response.json(body, { status, headers });
}
