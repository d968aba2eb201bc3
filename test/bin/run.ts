/**
 * Runs the command line as a user does: a process of its own, with nothing in its environment that was not given.
 *
 * @module
 */
import type { ChildProcess } from "node:child_process";
import { expect } from "vitest";
import { type Ended as Program, startCommand } from "../support/program.ts";

/** How it ended. */
export interface Ended extends Program {
  /** What it told of waiting, which is not in `stderr`: a slow machine has more to tell than a fast one. */
  readonly progress: readonly string[];
}

/** One that runs. */
export interface Running {
  readonly child: ChildProcess;
  readonly ended: Promise<Ended>;
  /** Resolves once it has written a text like this to its standard output. */
  writes(pattern: RegExp): Promise<RegExpExecArray>;
}

const progressLine = /^(Asking|Examining|Testing) .+ \(\d+ s\)\n/gm;

/** Starts it. It is killed after 30 s. */
export function start(args: readonly string[], env: Readonly<Record<string, string>> = {}): Running {
  let written = "";
  let heard = (): void => {};
  const { child, ended: program } = startCommand(
    process.execPath,
    ["--conditions=leasehold-source", "bin/leasehold.ts", ...args],
    { env: { PATH: process.env.PATH, ...env }, timeout: 30_000, killSignal: "SIGKILL" },
    (text) => {
      written = text;
      heard();
    },
  );
  const ended = program.then(({ stderr, ...rest }): Ended => {
    return { ...rest, stderr: stderr.replace(progressLine, ""), progress: stderr.match(progressLine) ?? [] };
  });
  const writes = (pattern: RegExp): Promise<RegExpExecArray> =>
    new Promise((resolve, reject) => {
      heard = () => {
        const found = pattern.exec(written);
        if (found) resolve(found);
      };
      heard();
      void ended.then(({ stderr }) => reject(new Error(`It ended: ${stderr}`)), reject);
    });
  return { child, ended, writes };
}

/** Runs it to its end. */
export function leasehold(args: readonly string[], env?: Readonly<Record<string, string>>): Promise<Ended> {
  return start(args, env).ended;
}

/** What it printed as JSON, and its code. */
export async function leaseholdJson(
  args: readonly string[],
  env?: Readonly<Record<string, string>>,
): Promise<{ readonly code: number | null; readonly document: Record<string, unknown> }> {
  const { code, stdout, stderr } = await leasehold([...args, "--json"], env);
  expect(stderr).toBe("");
  return { code, document: JSON.parse(stdout) };
}

/** The options that name these nodes. */
export function nodesOf(urls: readonly string[]): string[] {
  return urls.flatMap((url) => ["--node", url]);
}
