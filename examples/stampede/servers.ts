/**
 * Several processes of one server, as a platform runs them side by side.
 *
 * @module
 */
import { startProgram } from "./parts.ts";

/** How one process is started. It takes any free port and writes "Listening on" with its URL. */
export interface ServerProgram {
  readonly command: string;
  readonly args: readonly string[];
  readonly variables: Readonly<Record<string, string>>;
}

/** Starts so many processes and resolves with their URLs. */
export function startServers(
  parts: AsyncDisposableStack,
  count: number,
  { command, args, variables }: ServerProgram,
): Promise<readonly string[]> {
  const start = async (): Promise<string> => {
    const { child, output, ended } = startProgram(parts, command, args, {
      stdio: ["ignore", "pipe", "pipe"],
      env: { PATH: process.env.PATH, HOME: process.env.HOME, NO_COLOR: "1", PORT: "0", ...variables },
    });
    const ready = new Promise<string>((resolve) => {
      const look = (): void => {
        const url = /Listening on (http:\/\/[\d.:]+)/.exec(output())?.[1];
        if (url !== undefined) resolve(url);
      };
      for (const stream of [child.stdout, child.stderr]) stream?.on("data", look);
    });
    return Promise.race([ready, ended]);
  };
  return Promise.all(Array.from({ length: count }, start));
}
