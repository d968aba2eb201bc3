/**
 * The lease: what a holder has, the same object for one Redis and for a quorum.
 *
 * @module
 */
import type { Signal } from "./command.ts";
import { type LockContext, settle } from "./context.ts";
import { createHolding, type Grant, type Holding } from "./holding.ts";
import { createRelease, type ReleaseOutcome } from "./release.ts";
import { checkLeaseMs } from "./validate.ts";

/** `await using`, typed only where the consumer's libraries have the symbol. */
export type AsyncDisposal = SymbolConstructor extends { readonly asyncDispose: infer Dispose extends symbol }
  ? { readonly [Key in Dispose]: () => PromiseLike<void> }
  : unknown;

/** What every lease offers. */
export interface LeaseMethods {
  /** The name as the caller wrote it. */
  readonly name: string;
  /** The Redis key that holds the token. */
  readonly key: string;
  /** Who: new for each acquisition, never reused. Whoever has it can release the lock, so keep it out of logs. */
  readonly token: string;
  /** How recent: a safe integer, larger than that of any earlier holder of this name. Compare, do not count with it. */
  readonly fence: number;
  /**
   * Whole ms in which a write may still be *started*; 0 when over. Counted from before the request that was answered,
   * less what clocks may disagree by and what the write may take to land. Right also before any timer has run, as after
   * a freeze. On Workers the clock stands still between I/O: there it is an upper bound, best read after an `await`.
   */
  remaining(): number;
  /**
   * Aborts with a "lost" error at the deadline, even if no reply ever comes, or as soon as the loss is known. Timers may
   * be late, so it is advice and `remaining()` decides. Under `withLock` it also aborts with the reason of the caller's
   * signal. Never aborts once `release()` has been called. A copy or a proxy of the lease is without it.
   */
  readonly signal: Signal;
  /** @throws LockError "lost" when the lease is over */
  assertHeld(): void;
  /**
   * Sets what is left to `leaseMs` from now, in whole ms from 10 to 365 days, by default the length it was acquired with;
   * never shortens it.
   *
   * @returns this lease, with its deadline moved
   * @throws LockError "lost" when it is over, "unavailable" when too few nodes answered: then the old deadline stands;
   * "config" for a bad length or refused credentials
   */
  extend(leaseMs?: number): Promise<Lease>;
  /**
   * Frees the lock if it is still this lease's. From the call on the lease is over for its holder, whatever comes back.
   * Once settled, another call sends nothing and answers "already-released".
   *
   * @throws LockError "unavailable" when too few nodes answered, "config" for refused credentials: the lock ends with its
   * lease at the latest, and another call tries again
   */
  release(): Promise<ReleaseOutcome>;
}

/**
 * One acquisition of a lock, until it is released or its time is up.
 *
 * @example
 * ```ts
 * import { createLock } from "leasehold";
 * import { memoryClient } from "leasehold/memory";
 *
 * const lease = await createLock(memoryClient()).acquire("invoice:42");
 * if (lease.remaining() > 1_000) console.log(`fence ${lease.fence} may still write`);
 * await lease.release();
 * ```
 */
export type Lease = LeaseMethods & AsyncDisposal;

/** A lease and what only this package may do with it. */
export interface HeldLease {
  readonly lease: Lease;
  readonly holding: Holding;
  /** Releases without ever rejecting: trouble goes to the observer. With `waitUntil` it goes on behind. */
  close(): Promise<unknown>;
}

// On a prototype: a lease with a getter of its own would have a V8 hidden class of its own, kept until a full collection.
// Measured: an acquire and a release took 15 µs of CPU, and take 8.
class LeaseWithSignal {
  readonly #holding: Holding;

  constructor(holding: Holding) {
    this.#holding = holding;
  }

  get signal(): Signal {
    this.#holding.watch(true); // looks as well, so that the first look after a freeze finds it aborted
    return this.#holding.controller.signal;
  }
}

/** Gives what was granted its public face. */
export function createLease(context: LockContext, grant: Grant): HeldLease {
  const { name, keys, token, fence } = grant;
  const holding = createHolding(context, grant);
  const release = createRelease(holding);

  // While the lease lasts nobody else can have the lock, so a lost request is worth a second one.
  const close = (): Promise<unknown> => {
    const again = !holding.ending();
    const released = release().catch<unknown>(() => again && release());
    return settle(context, released);
  };

  const methods: Omit<LeaseMethods, "signal"> = {
    name,
    key: keys.lock,
    token,
    fence,
    remaining: holding.remainingMs,
    assertHeld: holding.assertHeld,
    async extend(leaseMs = grant.leaseMs) {
      checkLeaseMs(leaseMs, context.longestMs);
      await holding.extend(leaseMs, "extended");
      return lease;
    },
    release() {
      const released = release();
      void settle(context, released); // so that it may also be left unawaited: trouble goes to the observer
      return released;
    },
  };
  const lease = Object.assign(
    new LeaseWithSignal(holding),
    methods,
    Symbol.asyncDispose && { [Symbol.asyncDispose]: close },
  ) as LeaseMethods as Lease;
  return { lease, holding, close };
}
