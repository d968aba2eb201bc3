/**
 * Shows what three processes of the Node server do with a stampede.
 *
 * Run: `npm run start:node`, or `npm run start:node -- --serve` to keep it serving until Ctrl-C.
 *
 * @module
 */
import { fileURLToPath } from "node:url";
import { demonstrate } from "../stampede/demonstration.ts";
import { startServers } from "../stampede/servers.ts";

await demonstrate({
  title: "Servers: Node",
  readers: 200,
  speaks: "tcp",
  sharesRequests: true,
  start: (parts, { redis, origin }) =>
    startServers(parts, 3, {
      command: process.execPath,
      // Here the package is its own source.
      args: ["--conditions=leasehold-source", fileURLToPath(new URL("server.ts", import.meta.url))],
      variables: { REDIS_URL: redis.socket, ORIGIN_URL: origin.url },
    }),
});
