/**
 * `leasehold serve`.
 *
 * @module
 */
import { createServer, type Server } from "node:http";
import { getRequestListener } from "@hono/node-server";
import type { CommandClient } from "leasehold";
import { memoryClient } from "leasehold/memory";
import { restServer } from "leasehold/rest-server";
import { numberOf, type Values } from "./arguments.ts";
import { exit, UsageError } from "./exit.ts";
import { openRedis } from "./nodes.ts";
import { type Output, visible } from "./output.ts";
import { tokensOf } from "./tokens.ts";

/** What is served, and how it is let go of. */
interface Engine {
  readonly client: CommandClient;
  readonly name: string;
  close(): void;
}

/** How long requests that are under way may take once it is to end. */
const graceMs = 3_000;

/** Serves until it is told to end. */
export async function runServe(values: Values, positionals: readonly string[], output: Output): Promise<number> {
  if (positionals.length > 0) throw new UsageError("Cannot serve that: --redis names the Redis to serve");
  const host = values.host ?? "127.0.0.1";
  const port = numberOf("port", values.port) ?? 8_079;
  if (!Number.isInteger(port) || port < 0 || port > 65_535) {
    throw new UsageError("Cannot use --port as it must be an integer from 0 to 65535");
  }
  const { token, isOwn } = tokenOf(values, host);
  const ended = untilTold();
  const engine = await startEngine(values.redis);
  try {
    const app = restServer(engine.client, { token });
    const server = createServer(getRequestListener(app.fetch, { overrideGlobalObjects: false }));
    const url = await listen(server, host, port);
    if (output.json) output.line(JSON.stringify({ url, engine: engine.name }));
    else {
      output.line(`Serving ${visible(engine.name)} as the Upstash REST protocol. Ctrl-C ends it. For clients:`);
      output.line(`UPSTASH_REDIS_REST_URL=${url}`);
      output.line(isOwn ? "UPSTASH_REDIS_REST_TOKEN: the one that you gave" : `UPSTASH_REDIS_REST_TOKEN=${token}`);
    }
    await ended;
    await close(server);
  } finally {
    engine.close();
  }
  return exit.ok;
}

/** The token that was given, else one for everybody where nothing is at stake. */
function tokenOf(values: Values, host: string): { readonly token: string; readonly isOwn: boolean } {
  if (values.token !== undefined) {
    if (!values.token.trim()) throw new UsageError("Cannot use --token as it is empty");
    return { token: values.token, isOwn: true };
  }
  if (values["token-file"] || values["token-env"] || process.env.UPSTASH_REDIS_REST_TOKEN) {
    const [token = ""] = tokensOf(values, 1);
    if (!token) throw new UsageError("Cannot use the token as it is empty");
    return { token, isOwn: true };
  }
  if (values.redis !== undefined || !/^(localhost|127\.[\d.]+|::1)$/.test(host)) {
    const where = values.redis === undefined ? `on ${host}` : "a real Redis";
    throw new UsageError(`Cannot serve ${where} without a token: give --token-file, --token-env or --token`);
  }
  return { token: "local", isOwn: false };
}

async function startEngine(url: string | undefined): Promise<Engine> {
  if (url === undefined) return { client: memoryClient(), name: "a Redis in memory", close: () => {} };
  const { client, redis } = openRedis(url);
  let reached = false; // until it is, the trouble is told once, by what is thrown
  let last = "";
  redis.on("error", ({ message }: Error) => {
    if (reached && message && message !== last) process.stderr.write(`${visible(message)}\n`);
    last = message;
  });
  try {
    await redis.connect();
    await client.execute(["PING"]);
    reached = true;
  } catch {
    redis.disconnect();
    throw new Error(`Cannot reach ${client.label}${last && `: ${last}`}`);
  }
  return { client, name: `the Redis at ${client.label}`, close: () => void redis.disconnect() };
}

function listen(server: Server, host: string, port: number): Promise<string> {
  return new Promise((resolve, reject) => {
    server.once("error", (error: NodeJS.ErrnoException) => {
      reject(new UsageError(`Cannot serve on ${host}, port ${port}, as ${error.code ?? error.message}`));
    });
    server.listen(port, host, () => {
      const address = server.address();
      const bound = typeof address === "object" && address !== null ? address.port : port;
      resolve(`http://${host.includes(":") ? `[${host}]` : host}:${bound}`);
    });
  });
}

/** Resolves at the first signal; a second one ends the process at once. */
function untilTold(): Promise<void> {
  return new Promise((resolve) => {
    let told = false;
    const onSignal = (_: NodeJS.Signals, number: number): void => {
      if (told) process.exit(128 + number);
      told = true;
      resolve();
    };
    for (const name of ["SIGINT", "SIGTERM", "SIGHUP"] as const) process.on(name, onSignal);
  });
}

/** Takes nothing new, and lets what is under way end. */
function close(server: Server): Promise<void> {
  const late = setTimeout(() => server.closeAllConnections(), graceMs);
  return new Promise((resolve) => {
    server.close(() => {
      clearTimeout(late);
      resolve();
    });
    server.closeIdleConnections();
  });
}
