/**
 * The methods that every lock has: their options, the checks before anything is sent, and what they are made of.
 *
 * @module
 */
import { type Attempts, acquire } from "./acquire.ts";
import type { Signal } from "./command.ts";
import type { LockContext, WaitUntil, Wanted } from "./context.ts";
import { isLockError, type LockError } from "./errors.ts";
import type { Observer } from "./events.ts";
import { lockKeys } from "./keys.ts";
import type { HeldLease, Lease } from "./lease.ts";
import { checkDuration, checkFunction, checkLeaseMs, checkName, checkPrefix, checkSignal } from "./validate.ts";
import { runUnderLease, type Task } from "./with-lock.ts";

/** Settings of a lock; those of a single call win over them. */
export interface LockOptions {
  /**
   * What the keys of all locks begin with.
   *
   * @default {"lock"}
   */
  readonly prefix?: string | undefined;
  /**
   * How long a lease lasts, in whole ms from 10 to 365 days. It must hold the round trip several times over.
   *
   * @default {10_000}
   */
  readonly leaseMs?: number | undefined;
  /**
   * How long `acquire` and `withLock` wait for another holder, in whole ms from the call to 365 days; 0 never waits. It
   * takes 20 tries in 10 s at the most, so a lock that is let go of after a second or more may be free for 850 ms before a
   * waiter sees it.
   *
   * A Redis that stays silent adds up to three node time-outs: those of a first try, of its repetition (which a Redlock
   * leaves out) and of the roll-back. One is the round trip as measured, a second while nothing is known, at most a
   * quarter of the lease, and at least 250 ms, 100 ms in a Redlock, or the whole lease where that is shorter.
   *
   * @default {10_000}
   */
  readonly waitMs?: number | undefined;
  /** Receives every event. */
  readonly observe?: Observer | undefined;
  /**
   * Receives work that may go on after the call has settled, such as roll-backs, on hosts that freeze after the
   * response: `(work) => ctx.waitUntil(work)`. Without it the work is awaited up to the node time-out.
   */
  readonly waitUntil?: WaitUntil | undefined;
}

/** Settings of a call that does not wait. */
export interface TryOptions {
  /** @default {the lock's leaseMs} */
  readonly leaseMs?: number | undefined;
  /** Ends the attempt with "aborted", and in `tryWithLock` also aborts `lease.signal` while the task runs. */
  readonly signal?: Signal | undefined;
  /** @default {the lock's waitUntil} */
  readonly waitUntil?: WaitUntil | undefined;
}

/** Settings of an acquisition. */
export interface AcquireOptions extends TryOptions {
  /** @default {the lock's waitMs} */
  readonly waitMs?: number | undefined;
}

/** How long a task may hold. */
export interface HoldOptions {
  /**
   * When renewing ends and the call rejects "lost", in whole ms from the start of the task, from 1 to 365 days. The task
   * may still run, so the lock is not released: it ends with its lease.
   *
   * @default {no bound: the task's life is the bound}
   */
  readonly maxHoldMs?: number | undefined;
}

/**
 * What `tryWithLock` came to. `retryAfterMs` is what is left of the holder's lease, or the length of a lease where the
 * holder's has no end.
 */
export type TryResult<T> =
  | { readonly ran: true; readonly value: T }
  | { readonly ran: false; readonly retryAfterMs: number };

/** A lock: the algorithm and its settings. Holds nothing itself, so one serves any number of names. */
export interface Lock {
  /**
   * Waits for the lock and returns its lease, which is not renewed by itself.
   *
   * @throws LockError "contended" or "timeout" when another holds it, "unavailable", "aborted", "config"
   */
  acquire(name: string, options?: AcquireOptions): Promise<Lease>;
  /**
   * As `acquire`, but does not wait for a holder: null when another holds it.
   *
   * @throws LockError "unavailable" when Redis gave no answer in time, twice; "aborted", "config"
   */
  tryAcquire(name: string, options?: TryOptions): Promise<Lease | null>;
  /**
   * Runs the task under the lock and renews while it runs. The task's own value or error wins, whatever the release
   * comes to. Without `waitUntil` it settles after the release was answered.
   *
   * @throws whatever the task throws; LockError as `acquire`, and "lost" when the task ended after its lease, with its
   * value as `result`
   */
  withLock<T>(name: string, task: Task<T>): Promise<T>;
  withLock<T>(name: string, options: (AcquireOptions & HoldOptions) | undefined, task: Task<T>): Promise<T>;
  /**
   * As `withLock`, but skips the task when another holds the lock.
   *
   * @throws as `withLock`, but for "contended" and "timeout"
   */
  tryWithLock<T>(name: string, task: Task<T>): Promise<TryResult<T>>;
  tryWithLock<T>(name: string, options: (TryOptions & HoldOptions) | undefined, task: Task<T>): Promise<TryResult<T>>;
}

/** The methods over any way to attempt. Options are checked here, once, before anything is sent. */
export function lockMethods(
  options: LockOptions | undefined,
  participants: () => Omit<LockContext, "observe" | "waitUntil">,
  attemptsFor: (context: LockContext, wanted: Wanted) => Attempts,
): Lock {
  const { prefix = "lock", observe } = options ?? {};
  const defaults = checkedCall(options, {});
  checkPrefix(prefix);
  checkFunction("observe", observe, true);

  const hold = (name: string, { leaseMs, waitMs, signal, waitUntil }: CheckedCall): Promise<HeldLease> => {
    const keys = lockKeys(prefix, checkName("name", name));
    const context = { ...participants(), observe, waitUntil };
    const wanted = { name, keys, leaseMs, waitMs, signal };
    return acquire(context, attemptsFor(context, wanted), wanted);
  };
  const tryHold = (name: string, call: CheckedCall): Promise<HeldLease | LockError> =>
    hold(name, { ...call, waitMs: 0 }).catch((error: unknown) => {
      if (isLockError(error, "contended")) return error;
      throw error;
    });

  return {
    async acquire(name, call) {
      return (await hold(name, checkedCall(call, defaults))).lease;
    },
    async tryAcquire(name, call) {
      const held = await tryHold(name, checkedCall(call, defaults));
      return "lease" in held ? held.lease : null;
    },
    async withLock<T>(name: string, ...rest: TaskArguments<AcquireOptions, T>) {
      const [task, call] = checkedTask(rest, defaults);
      return runUnderLease(await hold(name, call), task, call);
    },
    async tryWithLock<T>(name: string, ...rest: TaskArguments<TryOptions, T>) {
      const [task, call] = checkedTask(rest, defaults);
      const held = await tryHold(name, call);
      if ("lease" in held) return { ran: true, value: await runUnderLease(held, task, call) };
      return { ran: false, retryAfterMs: held.retryAfterMs ?? call.leaseMs };
    },
  };
}

type Call = AcquireOptions & HoldOptions;
type CheckedCall = Call & { readonly leaseMs: number; readonly waitMs: number };

/** What is said for one call, else for the lock, else the default: a copy, whatever becomes of the caller's object. */
function checkedCall(call: Call | undefined, lock: Call): CheckedCall {
  const {
    leaseMs = lock.leaseMs ?? 10_000,
    waitMs = lock.waitMs ?? 10_000,
    waitUntil = lock.waitUntil,
    signal,
    maxHoldMs,
  } = call ?? {}; // null as well, which a caller without types may give
  checkLeaseMs(leaseMs);
  checkDuration("waitMs", waitMs);
  if (maxHoldMs !== undefined) checkDuration("maxHoldMs", maxHoldMs, 1);
  checkSignal(signal);
  checkFunction("waitUntil", waitUntil, true);
  return { leaseMs, waitMs, waitUntil, signal, maxHoldMs };
}

type TaskArguments<Options, T> =
  | [options: (Options & HoldOptions) | Task<T> | undefined, task: Task<T>]
  | [task: Task<T>];

function checkedTask<Options extends TryOptions, T>(
  given: TaskArguments<Options, T>,
  lock: Call,
): [Task<T>, CheckedCall] {
  const [task, call] = given.reverse(); // the options stand first, where there are any
  checkFunction("task", task);
  return [task as Task<T>, checkedCall(call as Call, lock)];
}
