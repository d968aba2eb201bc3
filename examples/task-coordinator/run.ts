/**
 * One attempt at a task, under the lease of its lock. Everything it reports is fenced: Redis takes it only from the attempt
 * that is running, and only while its lease lasts there.
 *
 * @module
 */
import type { Lease } from "leasehold";
import type { Json, Queue } from "./queue.ts";
import { evaluate } from "./scripts/evaluate.ts";
import { completeScript, failScript, progressScript, startScript } from "./scripts/run.ts";

/** What a worker is given to do. */
export interface Task {
  readonly id: string;
  readonly payload: Json;
  /** 1 for the first. */
  readonly attempt: number;
  readonly maxAttempts: number;
}

/** An attempt that has been started. Each report may be sent again when its outcome is unknown. */
export interface Run {
  readonly task: Task;
  /** That of the lease: pass it on to whatever the task writes. */
  readonly fence: number;
  /** Says that the worker is alive, and how far it has come where that is given. False where it was refused. */
  progress(percent?: number, note?: string): Promise<boolean>;
  /** False where it was refused: then the result counts for nothing. */
  complete(result: Json, keepMs: number): Promise<boolean>;
  fail(reason: string, retryInMs: number): Promise<"retrying" | "failed" | "refused">;
}

/** How many completed tasks are listed; each is kept for its `keepMs` all the same. */
const listed = 1_000;

/** Starts the attempt. Null where there is none to start: another has the task, or it is done. */
export async function startRun(
  { client, keys }: Queue,
  id: string,
  lease: Pick<Lease, "token" | "fence">,
  { leaseMs, worker }: { readonly leaseMs: number; readonly worker: string },
): Promise<Run | null> {
  const { token, fence } = lease;
  const { totals, claimed, delayed, completed, failed } = keys;
  const reportsTo = [keys.task(id), keys.taskLock(id), totals];
  const reply = await evaluate(client, startScript, [...reportsTo, claimed], [token, fence, id, leaseMs, worker]);
  if (!Array.isArray(reply)) return null;
  const [, payload, attempt, maxAttempts] = reply;
  return {
    fence,
    task: {
      id,
      payload: JSON.parse(String(payload).slice(1)),
      attempt: Number(attempt),
      maxAttempts: Number(maxAttempts),
    },
    async progress(percent, note = "") {
      const text = percent === undefined ? "" : String(Math.round(Math.min(100, Math.max(0, percent))));
      return (await evaluate(client, progressScript, reportsTo, [token, fence, text, note.slice(0, 200)])) === "noted";
    },
    async complete(result, keepMs) {
      const args = [token, fence, id, JSON.stringify(result) ?? "null", keepMs, listed];
      return (await evaluate(client, completeScript, [...reportsTo, claimed, completed], args)) === "completed";
    },
    async fail(reason, retryInMs) {
      const args = [token, fence, id, reason.slice(0, 500), retryInMs];
      const outcome = await evaluate(client, failScript, [...reportsTo, claimed, delayed, failed], args);
      return outcome === "retrying" || outcome === "failed" ? outcome : "refused";
    },
  };
}
