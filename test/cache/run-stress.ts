/**
 * The stress of the cache at length, and exits with 1 if a promise was broken, or if a cache that checks no fence was not
 * told from the right one:
 *
 *   npm run stress -- --seconds 30
 */
import { parseArgs } from "node:util";
import { Redis } from "ioredis";
import { ioredisClient } from "../../adapters/ioredis.ts";
import type { Command } from "../../src/command.ts";
import { commitScript } from "../../src/scripts/commit.ts";
import { startRedis } from "../support/redis.ts";
import { type Seen, stress } from "./stress.ts";

const { values } = parseArgs({ options: { seconds: { type: "string", default: "30" } } });
const ms = Number(values.seconds) * 1_000;
if (!(ms > 0)) throw new Error(`--seconds must be a number above 0: current value is ${values.seconds}`);

const withoutCheck = (command: Command): Command => {
  const [verb = "", source = "", ...rest] = command;
  return [verb, source === commitScript.source ? String(source).replace(" and h.lf == ARGV[2]", "") : source, ...rest];
};

const server = await startRedis();
const connections: Redis[] = [];
const connect = () => {
  const redis = new Redis(server.port, "127.0.0.1");
  connections.push(redis);
  return ioredisClient(redis);
};
try {
  const seen = await stress(connect, { ms });
  show("the cache", seen);
  const control = await stress(connect, { ms }, withoutCheck);
  show("without its fence check", control);
  if (seen.staleReads + seen.sharedFences > 0 || control.staleReads === 0) process.exitCode = 1;
} finally {
  for (const connection of connections) connection.disconnect();
  await server.stop();
}

function show(what: string, seen: Seen): void {
  console.log(
    `${what}: ${seen.reads} reads (${seen.oldReads} of old values), ${seen.builds} builds, ${seen.invalidations} ` +
      `invalidations, ${seen.refused} commits refused; ${seen.staleReads} stale reads, ${seen.sharedFences} shared fences`,
  );
}
