/**
 * A Deno server in front of a slow shop: however many ask for a product at once, in however many processes, one of them
 * rebuilds it. Redis is reached over HTTP.
 *
 * Run: `npm run start:deno` (a demonstration that ends by itself). In a project of yours, with the URL and the token of an
 * Upstash Redis in the environment: `deno serve --allow-net --allow-env server.ts`.
 *
 * @module
 */
import { createCache } from "leasehold";
import { restClient } from "leasehold/rest";
import { respondFrom } from "../stampede/respond.ts";

const { UPSTASH_REDIS_REST_URL: url, UPSTASH_REDIS_REST_TOKEN: token, ORIGIN_URL: originUrl = "" } = process.env;
const cache = createCache(restClient({ url, token }));

/** What `deno serve` calls. */
const server: { fetch(request: Request): Promise<Response> } = { fetch: respondFrom(cache, originUrl) };
export default server;
