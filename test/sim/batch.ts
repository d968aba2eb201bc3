/** Runs many seeds of one profile in a process of its own, so that a mutant's modules never meet the shipped ones. */
import { fork } from "node:child_process";
import { fileURLToPath } from "node:url";
import type { Patch } from "../mutants/patch.ts";
import type { Violation } from "./violation.ts";
import type { RunOptions } from "./world.ts";

export interface BatchRequest extends RunOptions {
  readonly profile: string;
  readonly from: number;
  readonly seeds: number;
  /** Mistakes to make in the shipped code. */
  readonly patches?: readonly Patch[] | undefined;
  /** Ends with the first seed that breaks a promise. */
  readonly untilFirst?: boolean | undefined;
  /** Looks for the fewest faults that still break it. */
  readonly shrinks?: boolean | undefined;
}

/** All it takes to see a failure again. */
export interface Replay extends RunOptions {
  readonly profile: string;
  readonly seed: number;
}

export interface Failure {
  readonly replay: Replay;
  readonly violation: Violation;
}

export interface Batch {
  readonly profile: string;
  /** Those that were run. */
  readonly seeds: number;
  readonly failures: readonly Failure[];
  readonly events: number;
  readonly requests: number;
  readonly queued: number;
  readonly progress: number;
  readonly overlaps: number;
  readonly orphanMs: number;
  readonly seconds: number;
}

/** What the process of a batch says. */
export interface Told {
  readonly batch?: Batch;
  readonly error?: unknown;
}

// Not a thread: V8 of Node 24 now and then ends a process of many isolates ("Check failed: jit_page.has_value()").
export function runBatch(request: BatchRequest): Promise<Batch> {
  return new Promise((resolve, reject) => {
    const child = fork(fileURLToPath(new URL("./batch-process.ts", import.meta.url)), { serialization: "advanced" });
    const end = (): void => void child.kill(); // by itself it would not see that nobody waits any more
    process.once("exit", end);
    child.once("message", ({ batch, error }: Told) => (batch ? resolve(batch) : reject(error)));
    child.once("error", reject);
    child.once("exit", (code, by) => {
      process.off("exit", end);
      reject(new Error(`A batch of ${request.profile} ended with ${code ?? by}`));
    });
    child.send(request);
  });
}

/** Adds up batches of one profile. */
export function joined(batches: readonly Batch[]): Batch {
  const sum = (of: (batch: Batch) => number): number => batches.reduce((total, batch) => total + of(batch), 0);
  return {
    profile: batches[0]?.profile ?? "",
    seeds: sum(({ seeds }) => seeds),
    failures: batches.flatMap(({ failures }) => failures),
    events: sum(({ events }) => events),
    requests: sum(({ requests }) => requests),
    queued: sum(({ queued }) => queued),
    progress: sum(({ progress }) => progress),
    overlaps: sum(({ overlaps }) => overlaps),
    orphanMs: sum(({ orphanMs }) => orphanMs),
    seconds: Math.max(...batches.map(({ seconds }) => seconds)),
  };
}
