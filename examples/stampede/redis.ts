/**
 * A private Redis: over HTTP, behind the Upstash REST protocol, a `redis-server` where one is installed, else the
 * in-process one; over TCP, or rather a socket file, a `redis-server`.
 *
 * @module
 */
import { dirname, join } from "node:path";
import { Redis as Ioredis } from "ioredis";
import type { CommandClient } from "leasehold";
import { ioredisClient } from "leasehold/ioredis";
import { memoryClient } from "leasehold/memory";
import { restServer } from "leasehold/rest-server";
import { serve, startProgram } from "./parts.ts";

/** What an example takes for its Redis. */
export interface Redis {
  /** The REST server; empty over TCP. */
  readonly url: string;
  readonly token: string;
  /** The socket file; empty over HTTP. */
  readonly socket: string;
  /** What answers: "redis-server 7.0.15", or "memory" and why. */
  readonly engine: string;
  /** Requests received so far: HTTP requests, or scripts run. */
  requests(): Promise<number>;
}

/** Starts it. It listens on a socket file, so it takes no port of this machine. */
export async function startRedis(
  parts: AsyncDisposableStack,
  directory: string,
  speaks: "http" | "tcp",
): Promise<Redis> {
  const socket = join(directory, "redis.sock");
  const server = await startRedisServer(parts, socket);
  const engine = server?.name ?? "memory (there is no redis-server on the PATH)";
  if (speaks === "http") {
    return { engine, socket: "", ...(await serveRest(parts, server ? ioredisClient(server.redis) : memoryClient())) };
  }
  if (!server) throw new Error("Cannot start as there is no redis-server on the PATH: this example speaks TCP to it");
  const requests = async (): Promise<number> => {
    const calls = [...(await server.redis.info("commandstats")).matchAll(/^cmdstat_(?:eval|evalsha):calls=(\d+)/gm)];
    return calls.reduce((total, [, count]) => total + Number(count), 0);
  };
  return { engine, socket, url: "", token: "", requests };
}

async function serveRest(parts: AsyncDisposableStack, client: CommandClient) {
  const token = crypto.randomUUID();
  const rest = restServer(client, { token });
  let requests = 0;
  const url = await serve(parts, (request) => {
    requests++;
    return rest.fetch(request);
  });
  return { url, token, requests: async () => requests };
}

/** Undefined where there is no `redis-server`. */
async function startRedisServer(
  parts: AsyncDisposableStack,
  socket: string,
): Promise<{ name: string; redis: Ioredis } | undefined> {
  const settings = [
    "--port",
    "0",
    "--unixsocket",
    socket,
    "--save",
    "",
    "--appendonly",
    "no",
    "--dir",
    dirname(socket),
  ];
  const server = startProgram(parts, "redis-server", settings, { stdio: ["ignore", "pipe", "pipe"] });
  const ready = new Promise<void>((resolve) => {
    server.child.stdout?.on("data", () => /ready to accept connections/i.test(server.output()) && resolve());
  });
  try {
    await Promise.race([ready, server.ended]);
  } catch (error) {
    if (isMissing(error)) return undefined;
    throw error;
  }
  const redis = new Ioredis(socket);
  parts.defer(() => redis.disconnect());
  const version = /version=([\d.]+)/.exec(server.output())?.[1] ?? "of unknown version";
  return { name: `redis-server ${version}`, redis };
}

function isMissing(error: unknown): boolean {
  const cause = error instanceof Error ? error.cause : undefined;
  return cause instanceof Error && "code" in cause && cause.code === "ENOENT";
}
