/**
 * Runs a task under a lease: renews while it runs, stops before it releases, and lets the task's own outcome win.
 *
 * @module
 */
import { onAbort, type Signal } from "./command.ts";
import { LockError } from "./errors.ts";
import type { HeldLease, Lease } from "./lease.ts";
import { startRenewal } from "./renewal.ts";

/** What runs under a lock. */
export type Task<T> = (lease: Lease) => T | PromiseLike<T>;

/**
 * Runs the task and resolves with its value.
 *
 * 1. The task's error is rejected with as it is, whatever else went wrong.
 * 2. A value that comes after the lease was lost rejects "lost" and is kept in the error's `result`.
 * 3. When `maxHoldMs` has passed it rejects "lost" at once. The task may still run, so its key is left to end with its
 *    lease: at most one lease later another can hold the lock.
 * 4. The caller's signal aborts `lease.signal` with the caller's reason; the task decides what comes of it.
 */
export async function runUnderLease<T>(
  { lease, holding, close }: HeldLease,
  task: Task<T>,
  { maxHoldMs, signal }: { readonly maxHoldMs?: number | undefined; readonly signal?: Signal | undefined },
): Promise<T> {
  const longHoldLeases = 10; // nothing ends a task that hangs, unless `maxHoldMs` does: the observer is told of it, once
  const { clock } = holding.context.env;
  const durationMs = longHoldLeases * holding.grant.leaseMs;
  const tellLongHold = (): void => {
    if (!holding.ending()) holding.tell({ type: "held-long", durationMs });
  };
  const passOn = (): void => {
    if (!holding.ending()) holding.controller.abort(signal?.reason);
  };
  const cancels = [startRenewal(holding), clock.after(durationMs, false, tellLongHold), onAbort(signal, passOn)];
  try {
    const result = await new Promise<T>((resolve, reject) => {
      const endHold = (): void => {
        holding.remainingMs(); // a lease that is over by then has expired, whether or not anyone watches
        holding.end("maxHold");
        if (holding.ending() !== "released") reject(holding.lostError()); // else the task has let go by itself
      };
      if (maxHoldMs) cancels.push(clock.after(maxHoldMs, false, endHold));
      (async () => task(lease))().then(resolve, reject);
    });
    const ending = holding.ending();
    if (ending && ending !== "released") {
      const error = holding.lostError();
      throw new LockError("lost", error.message, { ...error, result });
    }
    return result;
  } finally {
    for (const cancel of cancels) cancel();
    if (holding.ending() !== "maxHold") await close();
  }
}
