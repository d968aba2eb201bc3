/**
 * Runs a task under a lease: renews while it runs, stops before it releases, and lets the task's own outcome win.
 *
 * @module
 */
import type { Signal } from "./command.ts";
import { LockError } from "./errors.ts";
import type { HeldLease, Lease } from "./lease.ts";
import { startRenewal } from "./renewal.ts";

/** What runs under a lock. */
export type Task<T> = (lease: Lease) => T | PromiseLike<T>;

const longHoldLeases = 10;

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
  const { env } = holding.context;
  const { leaseMs } = holding.grant;
  const stopRenewal = startRenewal(holding);
  const longHoldMs = longHoldLeases * leaseMs;
  const cancelLongHold = env.clock.after(longHoldMs, false, () => {
    if (!holding.endedBy) holding.tell({ type: "held-long" }, { nodes: [], requests: 0, durationMs: longHoldMs });
  });
  const onAbort = (): void => {
    if (!holding.endedBy) holding.controller.abort(signal?.reason);
  };
  signal?.addEventListener("abort", onAbort);
  if (signal?.aborted) onAbort();
  let cancelMaxHold = (): void => {};
  const tooLong = new Promise<never>((_, reject) => {
    if (maxHoldMs === undefined) return;
    cancelMaxHold = env.clock.after(maxHoldMs, false, () => {
      holding.finish("maxHold");
      reject(holding.error);
    });
  });

  try {
    const result = await Promise.race([(async () => task(lease))(), tooLong]);
    const { endedBy } = holding;
    if (endedBy && endedBy !== "released") throw lostWith(holding.error, result);
    return result;
  } finally {
    stopRenewal();
    cancelLongHold();
    cancelMaxHold();
    signal?.removeEventListener("abort", onAbort);
    if (holding.endedBy !== "maxHold") await close();
  }
}

function lostWith(error: LockError, result: unknown): LockError {
  return new LockError("lost", error.message, { ...error, result });
}
