/**
 * The two kinds of parts that a demonstration starts: servers of this process and other programs. Each is put on the
 * caller's stack as soon as it exists, and so ends with it, whatever happens in between.
 *
 * @module
 */
import { type ChildProcess, type SpawnOptions, spawn } from "node:child_process";
import { createServer } from "node:http";
import { getRequestListener } from "@hono/node-server";

/** Serves a fetch handler on a free port of the loopback interface and returns its URL. */
export async function serve(
  parts: AsyncDisposableStack,
  handler: (request: Request) => Response | Promise<Response>,
): Promise<string> {
  const server = createServer(getRequestListener(handler, { overrideGlobalObjects: false }));
  parts.defer(async () => {
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
  });
  await new Promise<void>((resolve, reject) => {
    server.once("error", reject);
    server.listen(0, "127.0.0.1", resolve);
  });
  const address = server.address();
  if (typeof address !== "object" || address === null) throw new Error("Cannot serve: the server has no port");
  return `http://127.0.0.1:${address.port}`;
}

/** A program that was started. */
export interface Program {
  readonly child: ChildProcess;
  /** What it has written so far. */
  output(): string;
  /** Rejects, with what it has written, when it ends or cannot be started. Never resolves. */
  readonly ended: Promise<never>;
}

/**
 * Starts a program in a process group of its own: Ctrl-C in the terminal does not reach it before the stack is unwound,
 * and what it starts in its turn ends with it.
 */
export function startProgram(
  parts: AsyncDisposableStack,
  command: string,
  args: readonly string[],
  options: SpawnOptions,
): Program {
  const child = spawn(command, args, { ...options, detached: true });
  const signalGroup = (signal: NodeJS.Signals): void => {
    try {
      if (child.pid !== undefined) process.kill(-child.pid, signal);
    } catch {
      // The whole group has ended.
    }
  };
  const kill = (): void => signalGroup("SIGKILL");
  process.once("exit", kill);

  let text = "";
  for (const stream of [child.stdout, child.stderr]) stream?.on("data", (chunk) => (text += String(chunk)));
  let isOver = false;
  const ended = new Promise<never>((_, reject) => {
    const end = (reason: string, cause?: unknown) => (): void => {
      isOver = true;
      reject(new Error(`${command} ${reason}\n${text.trim()}`.trim(), { cause }));
    };
    child.once("error", (error) => end("cannot be started", error)());
    child.once("exit", (code, signal) => end(`ended with ${code ?? signal}`)());
  });
  const over = ended.catch(() => {});
  parts.defer(async () => {
    signalGroup("SIGTERM");
    const late = setTimeout(kill, 3_000);
    if (!isOver) await over;
    clearTimeout(late);
    kill();
    process.off("exit", kill);
  });
  return { child, output: () => text, ended };
}
