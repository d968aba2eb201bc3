/**
 * A worker: takes one task after the other, each under its lock, which is renewed while the task runs.
 *
 * @module
 */
import { createLock, isLockError, type LeaseMethods, type Signal } from "leasehold";
import { type Backoff, backoffMs } from "./backoff.ts";
import { checkName, taskLockName } from "./keys.ts";
import { pause } from "./pause.ts";
import type { Json, Queue } from "./queue.ts";
import { type Run, startRun, type Task } from "./run.ts";

/** What a handler may use besides the task. */
export interface TaskContext {
  /** Aborts when the task is no longer this worker's: stop then, and write nothing more. */
  readonly signal: AbortSignal;
  /** Larger than that of every earlier attempt: what is written to must refuse smaller ones. */
  readonly fence: number;
  /** Shows how far it has come. Never fails: a loss is told by the signal. */
  progress(percent: number, note?: string): Promise<void>;
}

/** Does a task. Its value is the result; what it throws fails the attempt. */
export type Handler = (task: Task, context: TaskContext) => Promise<Json> | Json;

/** How a worker works. */
export interface WorkerSettings {
  /** What it is called on the page. */
  readonly worker: string;
  readonly handler: Handler;
  /** How long after its death another may take over a worker's task. @default {10_000} */
  readonly leaseMs?: number;
  /** The longest an attempt may take; after that the task is another's. @default {no bound} */
  readonly maxRunMs?: number;
  readonly backoff?: Backoff;
  /** How long a completed task is kept, and with it its id. @default {a day} */
  readonly keepMs?: number;
  /** Is told of what nobody else would notice. */
  readonly tell?: (message: string) => void;
}

/**
 * What came of looking for work: "idle" there is none, "elsewhere" another has the task that was claimed, "unknown" Redis
 * did not answer the report, or the attempt took longer than it may, so the task may be run again; "refused" the lease had
 * ended, so the report does not count.
 */
export type Outcome = "idle" | "elsewhere" | "completed" | "retrying" | "failed" | "refused" | "unknown";

/**
 * Takes one task, if there is one, and does it.
 *
 * @throws LockError, or what the client rejects with, when Redis cannot be had: what was claimed is put back by the sweeper
 */
export async function runNext(queue: Queue, settings: WorkerSettings): Promise<Outcome> {
  const { leaseMs = 10_000, maxRunMs, worker } = settings;
  checkName("worker", worker);
  const id = await queue.claim();
  if (id === null) return "idle";
  let run: Run | null = null;
  let outcome = "elsewhere" as Outcome;
  // Each renewal is written to the task, by which the sweeper sees that somebody is at work. One that is lost does no harm.
  const lock = createLock(queue.client, {
    leaseMs,
    observe: ({ type }) => type === "renewed" && run?.progress().catch(() => {}),
  });
  const options = { maxHoldMs: maxRunMs };
  try {
    await lock.tryWithLock(taskLockName(queue.name, id), options, async (lease) => {
      run = await untilAnswered(lease, () => startRun(queue, id, lease, { leaseMs, worker }));
      if (!run) return;
      outcome = "unknown";
      outcome = await attempt(run, lease, settings);
    });
  } catch (error) {
    // The lease is over: what the report came to says more, where there was one.
    if (outcome === "elsewhere" || !isLockError(error, "lost")) throw error;
  }
  if (outcome === "refused") settings.tell?.(`${id}: the lease had ended, so the report was refused`);
  return outcome;
}

/** Runs the handler and reports, whatever has become of the lease: it is for Redis to accept or to refuse. */
async function attempt(run: Run, lease: LeaseMethods, settings: WorkerSettings): Promise<Outcome> {
  const { handler, backoff = {}, keepMs = 86_400_000, tell } = settings;
  const refusal = new AbortController();
  const context: TaskContext = {
    signal: AbortSignal.any([lease.signal, refusal.signal]),
    fence: run.fence,
    async progress(percent, note) {
      const noted = await run.progress(percent, note).catch(() => true);
      if (!noted) refusal.abort(new Error(`Cannot go on with "${run.task.id}" as it is another worker's now`));
    },
  };
  let report: () => Promise<Outcome>;
  try {
    const result = await handler(run.task, context);
    JSON.stringify(result); // what cannot be stored fails the attempt
    report = async () => ((await run.complete(result, keepMs)) ? "completed" : "refused");
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    const retryInMs = backoffMs(run.task.attempt, backoff, Math.random());
    report = () => run.fail(reason, retryInMs);
  }
  try {
    return await untilAnswered(lease, report);
  } catch (error) {
    tell?.(`${run.task.id}: no answer to the report: ${String(error)}`);
    return "unknown";
  }
}

/** Sends something that may be sent twice, again and again while its outcome is unknown and the lease lasts. */
async function untilAnswered<T>(lease: LeaseMethods, send: () => Promise<T>): Promise<T> {
  const most = 12; // about 7 s: a renewed lease has no end of its own
  for (let sent = 1; ; sent++) {
    try {
      return await send();
    } catch (error) {
      if (sent === most || lease.remaining() === 0) throw error;
    }
    await pause(Math.min(1_000, 25 * 2 ** sent));
  }
}

/** How a worker spends its time between tasks. */
export interface LoopSettings extends WorkerSettings {
  /** Ends the loop after the task that is running. */
  readonly signal: Signal;
  /** How long to wait where there is nothing to do. @default {500} */
  readonly pollMs?: number;
}

/** Works until the signal. Outlasts any outage of Redis. */
export async function work(queue: Queue, settings: LoopSettings): Promise<void> {
  const { signal, pollMs = 500, tell } = settings;
  while (!signal.aborted) {
    let idle = true;
    try {
      idle = (await runNext(queue, settings)) === "idle";
    } catch (error) {
      tell?.(`Redis cannot be had: ${String(error)}`);
    }
    if (idle) await pause(pollMs * (0.5 + Math.random()), signal);
  }
}
