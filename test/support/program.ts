/**
 * Runs a small program in a Node.js process of its own, to see what becomes of the process.
 *
 * @module
 */
import { spawn } from "node:child_process";
import { fileURLToPath } from "node:url";

/** How a program ended. */
export interface Ended {
  /** Null where it was still running when its time was up, and had to be killed. */
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

const root = fileURLToPath(new URL("../../", import.meta.url));

/** Runs the text of a module, which imports this package by its name. Kills it after 15 s. */
export function runProgram(source: string, flags: readonly string[] = []): Promise<Ended> {
  const fixed = ["--conditions=leasehold-source", "--input-type=module", "--eval", source];
  const child = spawn(process.execPath, [...flags, ...fixed], { cwd: root, stdio: ["ignore", "pipe", "pipe"] });
  let stdout = "";
  let stderr = "";
  child.stdout.on("data", (chunk) => {
    stdout += String(chunk);
  });
  child.stderr.on("data", (chunk) => {
    stderr += String(chunk);
  });
  const timer = setTimeout(() => child.kill("SIGKILL"), 15_000);
  return new Promise((resolve, reject) => {
    child.once("error", reject);
    child.once("close", (code) => {
      clearTimeout(timer);
      resolve({ code, stdout, stderr });
    });
  });
}
