/**
 * A Redis behind the Upstash REST protocol: a private `redis-server` where one is installed, else the in-process one.
 *
 * @module
 */
import { join } from "node:path";
import { Redis } from "ioredis";
import type { CommandClient } from "leasehold";
import { ioredisClient } from "leasehold/ioredis";
import { memoryClient } from "leasehold/memory";
import { restServer } from "leasehold/rest-server";
import { serve, startProgram } from "./parts.ts";

/** What the Worker takes for Upstash. */
export interface RestRedis {
  readonly url: string;
  readonly token: string;
  /** What answers: "redis-server 7.0.15", or "memory" and why. */
  readonly engine: string;
  /** HTTP requests received so far. */
  requests(): number;
}

interface Engine {
  readonly name: string;
  readonly client: CommandClient;
}

/** Starts both. */
export async function startRedis(parts: AsyncDisposableStack, directory: string): Promise<RestRedis> {
  const memory = { name: "memory (there is no redis-server on the PATH)", client: memoryClient() };
  const engine = (await startRedisServer(parts, join(directory, "redis.sock"))) ?? memory;
  const token = crypto.randomUUID();
  const rest = restServer(engine.client, { token });
  let requests = 0;
  const url = await serve(parts, (request) => {
    requests++;
    return rest.fetch(request);
  });
  return { url, token, engine: engine.name, requests: () => requests };
}

/** Undefined where there is no `redis-server`. It listens on a socket file, so it takes no port of this machine. */
async function startRedisServer(parts: AsyncDisposableStack, socket: string): Promise<Engine | undefined> {
  const settings = ["--port", "0", "--unixsocket", socket, "--save", "", "--appendonly", "no"];
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
  const redis = new Redis(socket);
  parts.defer(() => redis.disconnect());
  const version = /version=([\d.]+)/.exec(server.output())?.[1] ?? "of unknown version";
  return { name: `redis-server ${version}`, client: ioredisClient(redis) };
}

function isMissing(error: unknown): boolean {
  const cause = error instanceof Error ? error.cause : undefined;
  return cause instanceof Error && "code" in cause && cause.code === "ENOENT";
}
