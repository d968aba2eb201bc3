/**
 * Shows what three processes of the Deno server do with a stampede.
 *
 * Run: `npm run start:deno`, or `npm run start:deno -- --serve` to keep it serving until Ctrl-C.
 *
 * @module
 */
import { fileURLToPath } from "node:url";
import { demonstrate } from "../stampede/demonstration.ts";
import { startServers } from "../stampede/servers.ts";

const flags = ["--host", "127.0.0.1", "--port", "0", "--no-prompt", "--allow-net=127.0.0.1", "--allow-env"];
const here = ["--no-lock", "--conditions=leasehold-source"]; // the package is its own source

await demonstrate({
  title: "Servers: deno serve",
  readers: 200,
  speaks: "http",
  sharesRequests: true,
  start: (parts, { redis, origin }) =>
    startServers(parts, 3, {
      command: "deno",
      args: ["serve", ...flags, ...here, fileURLToPath(new URL("server.ts", import.meta.url))],
      variables: {
        UPSTASH_REDIS_REST_URL: redis.url,
        UPSTASH_REDIS_REST_TOKEN: redis.token,
        ORIGIN_URL: origin.url,
        DENO_NO_UPDATE_CHECK: "1",
      },
    }),
});
