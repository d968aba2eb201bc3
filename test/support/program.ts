/**
 * Runs programs in processes of their own, to see what becomes of them.
 *
 * @module
 */
import { type ChildProcess, type SpawnOptions, spawn } from "node:child_process";
import { fileURLToPath } from "node:url";

/** How a program ended. */
export interface Ended {
  /** Null where it was still running when its time was up, and had to be killed. */
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

const root = fileURLToPath(new URL("../../", import.meta.url));

/** Hears all that a command has written to its standard output so far, and gets what sends it a signal. */
type OnOutput = (text: string, kill: (signal: NodeJS.Signals) => void) => void;

/** Runs a command from the project's root to its end. */
export function runCommand(
  command: string,
  args: readonly string[],
  options: SpawnOptions = {},
  onOutput: OnOutput = () => {},
): Promise<Ended> {
  return startCommand(command, args, options, onOutput).ended;
}

/** Starts a command from the project's root. */
export function startCommand(
  command: string,
  args: readonly string[],
  options: SpawnOptions,
  onOutput: OnOutput,
): { readonly child: ChildProcess; readonly ended: Promise<Ended> } {
  const child = spawn(command, args, { cwd: root, ...options, stdio: ["ignore", "pipe", "pipe"] });
  const ended = new Promise<Ended>((resolve, reject) => {
    let stdout = "";
    let stderr = "";
    child.stdout?.on("data", (chunk) => {
      stdout += String(chunk);
      onOutput(stdout, (signal) => child.kill(signal));
    });
    child.stderr?.on("data", (chunk) => {
      stderr += String(chunk);
    });
    child.once("error", reject);
    child.once("close", (code) => resolve({ code, stdout, stderr }));
  });
  return { child, ended };
}

/** Runs the text of a module, which imports this package by its name. Kills it after 15 s. */
export function runProgram(source: string, flags: readonly string[] = []): Promise<Ended> {
  const fixed = ["--conditions=leasehold-source", "--input-type=module", "--eval", source];
  return runCommand(process.execPath, [...flags, ...fixed], { timeout: 15_000, killSignal: "SIGKILL" });
}
