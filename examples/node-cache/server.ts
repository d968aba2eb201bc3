/**
 * A plain Node server in front of a slow shop: however many ask for a product at once, in however many processes, one of
 * them rebuilds it. Redis is reached by ioredis.
 *
 * Run: `npm run start:node` (a demonstration that ends by itself). In a project of yours:
 * `REDIS_URL=redis://127.0.0.1:6379 node server.ts`.
 *
 * @module
 */
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import { Redis } from "ioredis";
import { createCache } from "leasehold";
import { ioredisClient } from "leasehold/ioredis";
import { loadProduct, productIn, refusalOf } from "../stampede/product.ts";

const { REDIS_URL = "redis://127.0.0.1:6379", ORIGIN_URL: originUrl = "", PORT = "3000" } = process.env;
const redis = new Redis(REDIS_URL);
redis.on("error", (error) => console.error(error.message));
const cache = createCache(ioredisClient(redis));

async function answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
  const { pathname } = new URL(request.url ?? "", "http://server");
  if (pathname === "/") return void response.end("GET or DELETE /products/1\n");
  if (pathname === "/health") return json(response, 200, { ok: true });
  const id = productIn(pathname);
  if (id === undefined) return json(response, 404, { error: "not found" });

  const key = `product:${id}`;
  // Anyone may call this here; in your own server put authentication in front of it.
  if (request.method === "DELETE") {
    await cache.invalidate(key);
    return void response.writeHead(204).end();
  }
  const entry = await cache.getEntry(key, { freshMs: 60_000 }, ({ signal }) => loadProduct(originUrl, id, signal));
  response.setHeader("x-cache", entry.status).setHeader("x-cache-requests", entry.requests);
  // "No such product" is a value like any other, so asking for it does not reach the origin again and again.
  if (entry.value === null) return json(response, 404, { error: "no such product" });
  json(response, 200, entry.value);
}

function fail(response: ServerResponse, error: unknown): void {
  const { status, headers, body } = refusalOf(error);
  json(response, status, body, headers);
}

function json(response: ServerResponse, status: number, body: object, headers: Record<string, string> = {}): void {
  response.writeHead(status, { "content-type": "application/json", ...headers }).end(JSON.stringify(body));
}

const server = createServer((request, response) => {
  answer(request, response).catch((error: unknown) => fail(response, error));
});
server.listen(Number(PORT), "127.0.0.1", () => {
  const address = server.address();
  if (typeof address === "object") console.log(`Listening on http://127.0.0.1:${address?.port}`);
});

// What is being answered is finished, and then Redis is left.
process.once("SIGTERM", () => {
  server.close(() => redis.disconnect());
  server.closeIdleConnections();
});
