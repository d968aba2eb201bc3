/** What is measured against: a private Redis, and a REST server before it in a process of its own, some ms away. */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { createServer } from "node:net";
import { fileURLToPath } from "node:url";

export interface Server {
  readonly port: number;
  stop(): Promise<void>;
}

export const restToken = "bench";

/** A redis-server that keeps nothing. */
export async function startRedis(): Promise<Server> {
  const port = await freePort();
  const args = [
    "--port",
    `${port}`,
    "--bind",
    "127.0.0.1",
    "--save",
    "",
    "--appendonly",
    "no",
    "--dbfilename",
    "bench.rdb",
  ];
  const child = begin("redis-server", args);
  await until(child, "Ready to accept connections");
  return { port, stop: () => stop(child) };
}

/** How far the REST server is that is not near: each request and each reply takes so long. */
export const farMs = 5;

/** The package's own REST server over that Redis; each request and each reply takes `delayMs`. */
export async function startRest(redisPort: number, delayMs: number): Promise<Server> {
  const port = await freePort();
  const script = fileURLToPath(new URL("./rest-process.ts", import.meta.url));
  const args = ["--conditions=leasehold-source", script, `${port}`, `${redisPort}`, `${delayMs}`, restToken];
  const child = begin(process.execPath, args);
  await until(child, "listening");
  return { port, stop: () => stop(child) };
}

function begin(program: string, args: readonly string[]): ChildProcess {
  const child = spawn(program, args, { stdio: ["ignore", "pipe", "inherit"] });
  process.once("exit", () => child.kill()); // where another one did not start
  return child;
}

async function until(child: ChildProcess, words: string): Promise<void> {
  let seen = "";
  for await (const chunk of child.stdout ?? []) {
    seen += String(chunk);
    if (seen.includes(words)) {
      child.stdout?.resume();
      return;
    }
  }
  throw new Error(`${child.spawnfile} ended before it was ready: ${seen}`);
}

async function stop(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  child.kill();
  await once(child, "exit");
}

async function freePort(): Promise<number> {
  const server = createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const address = server.address();
  server.close();
  if (address === null || typeof address === "string") throw new Error("Cannot find a free port");
  return address.port;
}
