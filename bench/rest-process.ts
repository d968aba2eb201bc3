/** A REST server in its own process: port, port of Redis, ms each way, token. */
import { setTimeout as delay } from "node:timers/promises";
import { serve } from "@hono/node-server";
import { Redis } from "ioredis";
import { ioredisClient } from "leasehold/ioredis";
import { restServer } from "leasehold/rest-server";

const [port = 0, redisPort = 0, delayMs = 0] = process.argv.slice(2, 5).map(Number);
const app = restServer(ioredisClient(new Redis(redisPort, "127.0.0.1")), { token: process.argv[5] ?? "" });
const fetch = async (request: Request): Promise<Response> => {
  if (delayMs > 0) await delay(delayMs);
  const response = await app.fetch(request);
  if (delayMs > 0) await delay(delayMs);
  return response;
};
serve({ fetch, port, hostname: "127.0.0.1" }, () => console.log("listening"));
