/**
 * Tasks that are due again and again: at most one for each slot, whoever fires, and however their clocks differ.
 *
 * @module
 */
import type { Signal } from "leasehold";
import { checkWhole } from "./keys.ts";
import { pause } from "./pause.ts";
import type { EnqueueOptions, Json, Queue } from "./queue.ts";

/** A task and how often it is due. */
export interface Schedule extends Pick<EnqueueOptions, "priority"> {
  /** Its tasks are called `<name>@<begin of the slot in ms>`. */
  readonly name: string;
  /** The length of a slot. Slots are counted from 1970, so that all who know the schedule agree on them. */
  readonly everyMs: number;
  readonly payload: Json;
  /** @default {1}: a slot whose worker dies is not begun again, but shown among the failed */
  readonly maxAttempts?: number;
}

/**
 * "fired": this call put the slot's task in line. "past": that has been done, by whoever came first, or a later slot has
 * been fired. "ahead": the slot begins so far in the future of Redis' clock that the caller's must be wrong.
 */
export type Fired = "fired" | "past" | "ahead";

/** When the slot began that the moment is in. */
export function slotOf(everyMs: number, now: number): number {
  return Math.floor(now / checkWhole("everyMs", everyMs, 1)) * everyMs;
}

/** Fires the slot of now, which is the caller's own clock, or the time that a cron trigger was due. */
export function fire(queue: Queue, schedule: Schedule, now: number = Date.now()): Promise<Fired> {
  const { name, everyMs, payload, priority = "normal", maxAttempts = 1 } = schedule;
  const toleranceMs = Math.min(everyMs, 60_000);
  return queue.fire(name, slotOf(everyMs, now), payload, { priority, maxAttempts, toleranceMs });
}

/** Fires each slot as it begins, until the signal. What was slept through is left out: only the current slot is fired. */
export async function keepFiring(
  queue: Queue,
  schedule: Schedule,
  { signal, tell }: { readonly signal: Signal; readonly tell?: (message: string) => void },
): Promise<void> {
  const { everyMs, name } = schedule;
  let next = 0;
  while (!signal.aborted) {
    const now = Date.now();
    try {
      if (now >= next) {
        const fired = await fire(queue, schedule, now);
        if (fired === "ahead") tell?.(`The clock is ahead of Redis' own: "${name}" was not fired`);
        next = slotOf(everyMs, now) + everyMs;
      }
    } catch (error) {
      tell?.(`Cannot fire "${name}": ${String(error)}`);
    }
    await pause(Math.min(1_000, Math.max(50, next - Date.now())), signal);
  }
}
