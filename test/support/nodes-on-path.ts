/**
 * The Nodes of this machine. Node 20 is the oldest promised: where npm itself runs on it, as in CI, it is on the path
 * behind the one for development.
 *
 * @module
 */
import { execFile } from "node:child_process";
import { delimiter, join } from "node:path";
import { promisify } from "node:util";

/** Each version on the path, and where it was found first. */
export async function nodesOnPath(): Promise<{ path: string; version: string }[]> {
  const found = new Map<string, string>();
  for (const part of (process.env.PATH ?? "").split(delimiter)) {
    const path = join(part, "node");
    const version = await promisify(execFile)(path, ["--version"]).then(
      ({ stdout }) => stdout.trim().slice(1),
      () => undefined,
    );
    if (version !== undefined && !found.has(version)) found.set(version, path);
  }
  return [...found].map(([version, path]) => ({ version, path }));
}
