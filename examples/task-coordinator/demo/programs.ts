/**
 * The programs that the demonstration starts, also those that it freezes: each ends with the caller's stack.
 *
 * @module
 */
import type { ChildProcess } from "node:child_process";
import { once } from "node:events";

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
