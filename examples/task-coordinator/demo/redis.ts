/**
 * A private `redis-server` that keeps its data through a kill, over TCP and behind the Upstash REST protocol.
 *
 * @module
 */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { createServer } from "node:net";
import { Redis } from "ioredis";
import type { CommandClient } from "leasehold";
import { ioredisClient } from "leasehold/ioredis";
import { restServer } from "leasehold/rest-server";
import { serve } from "../../stampede/parts.ts";
import { endWith } from "./programs.ts";

/** How the demonstration and its workers reach Redis. */
export interface RunningRedis {
  readonly version: string;
  readonly port: number;
  readonly rest: { readonly url: string; readonly token: string };
  /** The connection of this process. */
  readonly client: CommandClient;
  /** Kills the server and starts it again on the same data. */
  restart(): Promise<void>;
}

/** Starts both. Each write is on disk before it is answered. */
export async function startRedis(parts: AsyncDisposableStack, directory: string): Promise<RunningRedis> {
  const port = await freePort();
  let { server, version } = await startServer(parts, port, directory);
  const connection = new Redis({ port, host: "127.0.0.1", retryStrategy: () => 50 });
  connection.on("error", () => {}); // while it restarts; each command has a time-out of its own
  parts.defer(() => connection.disconnect());
  const client = ioredisClient(connection);
  const token = crypto.randomUUID();
  const rest = restServer(client, { token });
  const restart = async (): Promise<void> => {
    const ended = once(server, "exit");
    server.kill("SIGKILL");
    await ended;
    ({ server, version } = await startServer(parts, port, directory));
  };
  return { version, port, client, rest: { url: await serve(parts, rest.fetch), token }, restart };
}

async function startServer(
  parts: AsyncDisposableStack,
  port: number,
  directory: string,
): Promise<{ server: ChildProcess; version: string }> {
  if (parts.disposed) throw new Error("Cannot start redis-server as the show is over");
  const place = ["--port", `${port}`, "--bind", "127.0.0.1", "--dir", directory];
  const durable = ["--appendonly", "yes", "--appendfsync", "always", "--save", ""];
  const server = spawn("redis-server", [...place, ...durable], { stdio: ["ignore", "pipe", "inherit"] });
  endWith(parts, server);
  return new Promise((resolve, reject) => {
    let log = "";
    server.once("error", () => reject(new Error("Cannot start redis-server: install it, or put it on the PATH")));
    server.once("exit", () => reject(new Error(`Cannot start redis-server on port ${port}\n${log}`)));
    server.stdout.on("data", (chunk) => {
      log += String(chunk);
      const version = /version=([\d.]+)/.exec(log)?.[1] ?? "of unknown version";
      if (/ready to accept connections/i.test(log)) resolve({ server, version });
    });
  });
}

async function freePort(): Promise<number> {
  const server = createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const address = server.address();
  await new Promise((resolve) => server.close(resolve));
  return typeof address === "object" && address !== null ? address.port : 0;
}
