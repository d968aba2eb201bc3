/**
 * A queue of tasks on Redis: lists of ids, a hash for each task, and one script for each step.
 *
 * A task is pending, running, completed or failed, and its hash says which. While it is pending or running its id stands in
 * exactly one list: ready, delayed or claimed. So nothing is lost wherever a worker dies, and what arrives twice finds the
 * state changed and does nothing.
 *
 * @module
 */
import type { CommandClient, Reply } from "leasehold";
import { checkName, checkWhole, type Priority, priorities, type QueueKeys, queueKeys } from "./keys.ts";
import { claimScript } from "./scripts/claim.ts";
import { enqueueScript, fireScript } from "./scripts/enqueue.ts";
import { evaluate } from "./scripts/evaluate.ts";
import { discardScript, retryScript } from "./scripts/last-resort.ts";
import { claimedScript } from "./scripts/read.ts";
import { recoverScript } from "./scripts/recover.ts";

/** What a task carries, and what it comes to. */
export type Json = string | number | boolean | null | readonly Json[] | { readonly [name: string]: Json };

/** How a task is put in line. */
export interface EnqueueOptions {
  /**
   * The idempotency key, and the task's id: a second task of the same id is not created, for as long as the first is
   * known, which is until `keepMs` after it was done. Another payload, as JSON text, is an error. At most 128 letters,
   * digits, "_", ".", "@" and "-".
   *
   * @default {a random one}
   */
  readonly id?: string;
  /** @default {"normal"} */
  readonly priority?: Priority;
  /** Not before so many ms from now, by the clock of Redis. @default {0} */
  readonly delayMs?: number;
  /** How often it is begun before it goes to the last resort; an attempt whose worker dies counts. @default {5} */
  readonly maxAttempts?: number;
}

/** When a claimed task is taken away from its worker. */
export interface RecoverOptions {
  /** How long a claimed task may take to be started. @default {10_000} */
  readonly startMs?: number;
  /** How long a running task may go without a renewal, whatever its lease. @default {600_000} */
  readonly silentMs?: number;
  /** Take it away in any case. */
  readonly force?: boolean;
}

/** What a look at a claimed task came to; all but the first two have put it back. `scripts/recover.ts` has the meanings. */
export type Recovery = "well" | "moved" | "never-started" | "lease-ended" | "overheld" | "silent" | "taken-back";

/** A queue. Holds nothing itself, so any number of processes may open it. */
export interface Queue {
  readonly name: string;
  readonly client: CommandClient;
  readonly keys: QueueKeys;
  /** @returns the id, and whether this call created the task */
  enqueue(payload: Json, options?: EnqueueOptions): Promise<{ readonly id: string; readonly created: boolean }>;
  /** As `enqueue`, for the slot of a schedule that begins at `slot`: once for each slot, and never for an earlier one. */
  fire(schedule: string, slot: number, payload: Json, options: FireOptions): Promise<"fired" | "past" | "ahead">;
  /** Takes a task out of line. Whoever took it must start it under its lock, or the sweeper puts it back. */
  claim(): Promise<string | null>;
  /** What has been claimed and not reported: about to start, running, or left by a worker that died. */
  claimed(): Promise<string[]>;
  /** Looks at a claimed task, and puts it back in line if nobody is at work on it any more. */
  recover(id: string, options?: RecoverOptions): Promise<Recovery>;
  /** Puts a failed task back in line; false where it is not among the failed. */
  retry(id: string): Promise<boolean>;
  /** Forgets a failed task; false where it is not among the failed. */
  discard(id: string): Promise<boolean>;
}

/** How the task of a slot is put in line. */
export interface FireOptions extends Pick<EnqueueOptions, "priority" | "maxAttempts"> {
  /** How far in the future of Redis' clock a slot may begin. */
  readonly toleranceMs: number;
}

/** Opens a queue. Sends nothing yet. */
export function openQueue(client: CommandClient, name: string): Queue {
  const keys = queueKeys(checkName("queue", name, 64));
  const run = (source: string, on: readonly string[], args: readonly (string | number)[]): Promise<Reply> =>
    evaluate(client, source, on, args);
  const lineOf = (place: number): string => keys.ready[place] ?? keys.delayed;
  const placed = (id: string, payload: Json, options: EnqueueOptions): readonly (string | number)[] => {
    const { priority = "normal", delayMs = 0, maxAttempts = 5 } = options;
    const place = priorities.indexOf(priority);
    if (place < 0) throw new TypeError(`Cannot use priority as it must be ${priorities.join(", ")}: it is ${priority}`);
    const text = JSON.stringify(payload);
    if (text === undefined) throw new TypeError("Cannot use payload as it must be JSON");
    return [
      checkName("id", id),
      text,
      place,
      checkWhole("delayMs", delayMs, 0),
      checkWhole("maxAttempts", maxAttempts, 1),
    ];
  };

  return {
    name,
    client,
    keys,
    async enqueue(payload, { id = crypto.randomUUID(), ...options } = {}) {
      const args = placed(id, payload, options);
      const reply = await run(enqueueScript, [keys.task(id), lineOf(Number(args[2])), keys.delayed, keys.totals], args);
      if (reply === "conflict") throw new Error(`Cannot enqueue "${id}" as a task of that id has another payload`);
      return { id, created: reply === "new" };
    },
    async fire(schedule, slot, payload, { toleranceMs, ...options }) {
      const id = `${checkName("schedule", schedule, 64)}@${checkWhole("slot", slot, 0)}`;
      const args = placed(id, payload, options);
      const on = [keys.task(id), lineOf(Number(args[2])), keys.delayed, keys.totals, keys.schedules];
      const reply = await run(fireScript, on, [...args, schedule, slot, toleranceMs]);
      return reply === "new" ? "fired" : reply === "ahead" ? "ahead" : "past";
    },
    async claim() {
      const reply = await run(claimScript, [...keys.ready, keys.delayed, keys.claimed], []);
      return reply === null ? null : String(reply).slice(1);
    },
    async claimed() {
      return [await run(claimedScript, [keys.claimed], [])].flat().map((id) => String(id).slice(1));
    },
    async recover(id, { startMs = 10_000, silentMs = 600_000, force = false } = {}) {
      const bounds = [checkWhole("startMs", startMs, 0), checkWhole("silentMs", silentMs, 0)];
      const { claimed, failed, incidents, ready, totals } = keys;
      const on = [keys.task(checkName("id", id)), keys.taskLock(id), totals, claimed, failed, incidents, ...ready];
      return (await run(recoverScript, on, [id, ...bounds, force ? 1 : 0])) as Recovery;
    },
    async retry(id) {
      return (await run(retryScript, [keys.task(checkName("id", id)), keys.failed, ...keys.ready], [id])) === 1;
    },
    async discard(id) {
      return (await run(discardScript, [keys.task(checkName("id", id)), keys.failed], [id])) === 1;
    },
  };
}
