/**
 * The account at the end: what was asked for, what came of it, and what of that is wrong.
 *
 * @module
 */
import type { Entry } from "./ledger.ts";

/** All that was counted. */
export interface Account {
  readonly tasks: number;
  /** How many of them the queue says are completed. */
  readonly completed: number;
  /** The ledger's entries, by task. */
  readonly entries: ReadonlyMap<string, Entry>;
  readonly attempts: number;
  /** Attempts that failed and were tried again. */
  readonly retried: number;
  /** Tasks that the sweeper put back. */
  readonly recovered: number;
  /** Of the ledger and of the queue: writes and reports of attempts that had lost their lease. */
  readonly refusedWrites: number;
  readonly refusedReports: number;
  /** Tasks of the last resort. */
  readonly failed: number;
  /** Tasks that were put in line a second time, and how many of these were taken for new. */
  readonly repeats: number;
  readonly repeatsCreated: number;
  readonly seconds: number;
}

/** As a person reads it. */
export function printed(account: Account): string {
  const once = [...account.entries.values()].filter(({ made }) => made === 1).length;
  const rows: [string, string | number][] = [
    ["tasks", account.tasks],
    ["done exactly once, as the ledger has it", once],
    ["completed, as the queue has it", account.completed],
    ["attempts", account.attempts],
    ["attempts that failed and were tried again", account.retried],
    ["tasks put back after their worker was lost", account.recovered],
    ["stale writes refused by the ledger", account.refusedWrites],
    ["stale reports refused by the queue", account.refusedReports],
    ["put in line twice, and taken once", account.repeats - account.repeatsCreated],
    ["seconds", account.seconds.toFixed(1)],
  ];
  const width = Math.max(...rows.map(([title]) => title.length));
  return rows.map(([title, value]) => `${title.padEnd(width)}  ${String(value).padStart(5)}`).join("\n");
}

/** A sentence for each thing that is wrong; none when all is right. */
export function faults(account: Account): string[] {
  const { tasks, completed, entries, attempts, failed, recovered, refusedWrites, refusedReports } = account;
  const found: string[] = [];
  for (const [task, { made }] of entries) if (made !== 1) found.push(`${task} was done ${made} times`);
  if (entries.size !== tasks) found.push(`${entries.size} of ${tasks} tasks reached the ledger`);
  if (completed !== tasks) found.push(`${completed} of ${tasks} tasks are completed`);
  if (failed > 0) found.push(`${failed} tasks have failed for good`);
  if (account.repeatsCreated > 0) found.push(`${account.repeatsCreated} tasks were put in line twice`);
  if (recovered < 2) found.push(`${recovered} tasks were put back instead of the 2 whose worker was lost, or more`);
  if (attempts < tasks + 2) found.push(`${attempts} attempts are too few`);
  if (refusedWrites < 1) found.push("the frozen worker's write was not refused");
  if (refusedReports < 1) found.push("the frozen worker's report was not refused");
  return found;
}
