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
import { respondFrom } from "../stampede/respond.ts";

const { REDIS_URL = "redis://127.0.0.1:6379", ORIGIN_URL: originUrl = "", PORT = "3000" } = process.env;
const cache = createCache(bunClient(new RedisClient(REDIS_URL)));

const server = serve({
  hostname: "127.0.0.1",
  port: Number(PORT),
  fetch: respondFrom(cache, originUrl),
});
console.log(`Listening on ${server.url}`);
