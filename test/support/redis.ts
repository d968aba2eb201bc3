/**
 * Starts what a test needs to talk to a real Redis: a private `redis-server`, and a REST server in front of a client.
 * Each caller stops what it started.
 *
 * @module
 */
import { spawn, spawnSync } from "node:child_process";
import { randomUUID } from "node:crypto";
import { createServer } from "node:http";
import { createServer as createTcpServer, type Server } from "node:net";
import { tmpdir } from "node:os";
import { getRequestListener } from "@hono/node-server";
import { Redis } from "ioredis";
import { describe, expect, test } from "vitest";
import { ioredisClient } from "../../adapters/ioredis.ts";
import { type RestServerOptions, restServer } from "../../adapters/rest-server.ts";
import type { CommandClient } from "../../src/command.ts";

/** Whether a `redis-server` can be started here. */
export const redisInstalled: boolean = spawnSync("redis-server", ["--version"]).status === 0;

/** Like `describe`, for suites that need `redis-server`: skipped where there is none, but failed where `CI` is "true". */
export function describeRedis(name: string, body: () => void): void {
  if (redisInstalled) {
    describe(name, body);
  } else if (process.env.CI === "true") {
    test(name, () => expect.fail("Cannot run this suite as redis-server is missing: CI must install it"));
  } else {
    describe.skip(`${name} (skipped: redis-server is not installed)`, body);
  }
}

/** A private Redis on the loopback interface. */
export interface RunningRedis {
  readonly port: number;
  /** To pause it: `process.kill(pid, "SIGSTOP")`, then "SIGCONT". */
  readonly pid: number;
  /** Ends the server, a paused one too. Its data is gone. */
  stop(): Promise<void>;
}

/** Starts a `redis-server` that keeps nothing on disk, with further arguments such as `["--requirepass", "x"]`. */
export async function startRedis({ args = [] }: { readonly args?: readonly string[] } = {}): Promise<RunningRedis> {
  let failure: unknown;
  for (let attempt = 0; attempt < 5; attempt++) {
    // Another process can take the free port before Redis binds it, so a start that fails is tried on another one.
    const port = await freePort();
    try {
      return await startRedisOn(port, args);
    } catch (error) {
      failure = error;
    }
  }
  throw failure;
}

function startRedisOn(port: number, args: readonly string[]): Promise<RunningRedis> {
  // A name that no dump has: a server that saves nothing still loads what lies where it is started.
  const empty = [
    "--save",
    "",
    "--appendonly",
    "no",
    "--dir",
    tmpdir(),
    "--dbfilename",
    `leasehold-${randomUUID()}.rdb`,
  ];
  const fixed = ["--port", `${port}`, "--bind", "127.0.0.1", ...empty];
  const child = spawn("redis-server", [...fixed, ...args], { stdio: ["ignore", "pipe", "inherit"] });
  const exited = new Promise<void>((resolve) => child.once("close", () => resolve()));
  const kill = (): void => void child.kill("SIGKILL");
  process.once("exit", kill);
  const stop = (): Promise<void> => {
    process.off("exit", kill);
    kill();
    return exited;
  };
  return new Promise((resolve, reject) => {
    let log = "";
    child.once("error", reject);
    child.once("close", () => reject(new Error(`Cannot start redis-server on port ${port}: ${log}`)));
    child.stdout.on("data", (chunk) => {
      log += String(chunk);
      if (child.pid !== undefined && log.includes("Ready to accept")) resolve({ port, pid: child.pid, stop });
    });
  });
}

/** A REST server on the loopback interface, in front of a client. */
export interface RunningRestServer {
  readonly url: string;
  readonly token: string;
  /** The paths asked for so far, in order: each entry is one request. */
  readonly requests: string[];
  /** Closes every connection, from one moment to the next. */
  drop(): void;
  stop(): Promise<void>;
}

/** Serves a client as Upstash REST, on a free port. */
export async function startRestServer(
  client: CommandClient,
  { token = "test-token", maxBodyBytes }: Partial<RestServerOptions> = {},
): Promise<RunningRestServer> {
  const app = restServer(client, { token, maxBodyBytes });
  const requests: string[] = [];
  const server = createServer(
    getRequestListener(
      (request) => {
        requests.push(new URL(request.url).pathname);
        return app.fetch(request);
      },
      { overrideGlobalObjects: false },
    ),
  );
  const port = await listen(server);
  const stop = (): Promise<void> =>
    new Promise((resolve) => {
      server.close(() => resolve());
      server.closeAllConnections();
    });
  return { url: `http://127.0.0.1:${port}`, token, requests, drop: () => server.closeAllConnections(), stop };
}

/** A REST server in front of a `redis-server` of its own. */
export interface RunningRestRedis extends RunningRestServer {
  readonly redis: RunningRedis;
  /** The connection that the server uses. */
  readonly connection: Redis;
}

/** Starts a `redis-server` and serves it as Upstash REST; `stop` ends both. */
export async function startRestRedis(options?: Partial<RestServerOptions>): Promise<RunningRestRedis> {
  const redis = await startRedis();
  const connection = new Redis(redis.port, "127.0.0.1");
  const rest = await startRestServer(ioredisClient(connection), options);
  const stop = async (): Promise<void> => {
    await rest.stop();
    connection.disconnect();
    await redis.stop();
  };
  return { ...rest, redis, connection, stop };
}

/** Binds a server to a free port of the loopback interface. */
export function listen(server: Server): Promise<number> {
  return new Promise((resolve, reject) => {
    server.once("error", reject);
    server.listen(0, "127.0.0.1", () => {
      const address = server.address();
      if (typeof address === "object" && address !== null) resolve(address.port);
      else reject(new Error("Cannot listen: no port"));
    });
  });
}

/** One that nothing listens on. */
export async function freePort(): Promise<number> {
  const server = createTcpServer();
  const port = await listen(server);
  await new Promise((resolve) => server.close(resolve));
  return port;
}
