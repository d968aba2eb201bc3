/**
 * What the demonstration starts: servers of this process and other programs. Each is put on the caller's stack as soon as
 * it exists, and so ends with it.
 *
 * @module
 */
import type { ChildProcess } from "node:child_process";
import { once } from "node:events";
import { createServer } from "node:http";
import { getRequestListener } from "@hono/node-server";

/** Serves a fetch handler on a free port of the loopback interface and returns its URL. */
export async function serve(
  parts: AsyncDisposableStack,
  handler: (request: Request) => Response | Promise<Response>,
): Promise<string> {
  const server = createServer(getRequestListener(handler, { overrideGlobalObjects: false }));
  parts.defer(async () => {
    const closed = new Promise((resolve) => server.close(resolve));
    server.closeAllConnections();
    await closed;
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const address = server.address();
  return `http://127.0.0.1:${typeof address === "object" && address !== null ? address.port : 0}`;
}

/** Ends a program with the stack, or with this process whatever becomes of it. One that is frozen ends as well. */
export function endWith(parts: AsyncDisposableStack, child: ChildProcess): void {
  const kill = (): void => void child.kill("SIGKILL");
  const isOver = (): boolean => child.exitCode !== null || child.signalCode !== null || child.pid === undefined;
  process.once("exit", kill);
  parts.defer(async () => {
    if (!isOver()) {
      const ended = once(child, "exit");
      child.kill("SIGTERM");
      child.kill("SIGCONT");
      const late = setTimeout(kill, 3_000);
      await ended;
      clearTimeout(late);
    }
    process.off("exit", kill);
  });
}
