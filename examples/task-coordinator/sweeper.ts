/**
 * The sweeper: finds tasks whose worker is gone, and puts them back in line.
 *
 * @module
 */
import { createLock, type Signal } from "leasehold";
import { sweeperLockName } from "./keys.ts";
import { pause } from "./pause.ts";
import type { Queue, RecoverOptions, Recovery } from "./queue.ts";

/** How the sweeper works. */
export interface SweepSettings extends RecoverOptions {
  /** One sweep in so many ms, however many processes ask for one. From 10. @default {2_000} */
  readonly everyMs?: number;
  /** Is told of every task that was put back, and why. */
  readonly tell?: (message: string) => void;
}

/** A task that was put back. */
export interface Recovered {
  readonly id: string;
  readonly why: Recovery;
}

/**
 * Looks at every claimed task, unless another process has swept a moment ago: then null.
 *
 * Its lock is not released but left to end after `everyMs`, so that it also says when the next sweep is due. Two sweeps at
 * once, as after a pause, do no harm: RECOVER finds what the other has changed.
 */
export async function sweep(queue: Queue, settings: SweepSettings = {}): Promise<Recovered[] | null> {
  const { everyMs = 2_000, tell } = settings;
  const lease = await createLock(queue.client).tryAcquire(sweeperLockName(queue.name), { leaseMs: everyMs });
  if (!lease) return null;
  const recovered: Recovered[] = [];
  for (const id of await queue.claimed()) {
    if (lease.remaining() < everyMs / 2) await lease.extend();
    const why = await queue.recover(id, settings);
    if (why === "well" || why === "moved") continue;
    recovered.push({ id, why });
    tell?.(`${id} was put back: ${why}`);
  }
  return recovered;
}

/** Sweeps until the signal. Any number of processes may: one of them does it each time. */
export async function keepSweeping(queue: Queue, settings: SweepSettings & { readonly signal: Signal }): Promise<void> {
  const { signal, everyMs = 2_000, tell } = settings;
  while (!signal.aborted) {
    await sweep(queue, settings).catch((error: unknown) => tell?.(`Cannot sweep: ${String(error)}`));
    await pause(everyMs * (0.5 + Math.random()), signal);
  }
}
