/**
 * Everything that happens, as one union: what a logger or a metrics adapter sees. No event holds a token or a value.
 *
 * @module
 */
import type { LockErrorCode, LostBy, NodeReport } from "./errors.ts";

/** What every event has. */
interface Happened {
  /** The lock's name or the cache's key, as the caller wrote it. */
  readonly name: string;
  /**
   * In ms: since the call began for "acquired", "contended", "acquire-failed" and the events of a cache; for the others of
   * the round that they tell of. 0 where nothing was asked.
   */
  readonly durationMs: number;
  /** Requests sent in that time. */
  readonly requests: number;
  /** What each Redis answered last, where one was asked. */
  readonly nodes: readonly NodeReport[];
}

interface Fenced extends Happened {
  readonly fence: number;
}

/** What a lock does. */
export type LockEvent =
  /** A lease was granted; `remainingMs` as its `remaining()`. */
  | (Fenced & { readonly type: "acquired"; readonly remainingMs: number })
  /** One try was refused; `retryAfterMs` is what is left of the holder's lease, where that is known. */
  | (Happened & { readonly type: "contended"; readonly retryAfterMs: number | undefined })
  /** An acquisition was given up, with what its error says. `requests` leaves out a last try that was refused for good. */
  | (Happened & { readonly type: "acquire-failed"; readonly code: LockErrorCode; readonly retryAfterMs?: number })
  /** A deadline was moved: by `extend()`, or by the renewal of `withLock` and `tryWithLock`. */
  | (Fenced & { readonly type: "extended" | "renewed"; readonly remainingMs: number })
  /** A renewal got too few answers. It is tried again until the old deadline, which still stands. */
  | (Fenced & { readonly type: "renewal-unknown"; readonly remainingMs: number })
  /** A lease ended before it was released; `lease.signal` aborts at the same moment. At most once a lease. */
  | (Fenced & { readonly type: "lost"; readonly by: LostBy })
  /** A task has run for 10 leases; `durationMs` is how long that is. */
  | (Fenced & { readonly type: "held-long" })
  /** A release was settled. */
  | (Fenced & { readonly type: "released"; readonly outcome: "released" | "expired" | "stolen" })
  /** A release got too few answers: the lock ends with its lease at the latest. */
  | (Fenced & { readonly type: "release-failed"; readonly code: LockErrorCode })
  /** One try to clean up after an attempt whose outcome was unknown, or whose lease was too short to be used. */
  | (Happened & { readonly type: "rolled-back"; readonly confirmed: boolean })
  /** A node of a Redlock granted after the quorum had decided. */
  | (Fenced & { readonly type: "late-grant" });

/** What a guarded cache does. */
export type CacheEvent =
  /** A stored value was served; a caller was elected to build; an entry was invalidated. */
  | (Fenced & { readonly type: "hit" | "stale" | "elected" | "invalidated" })
  /** A build came to a value; `stored` says whether it is in Redis. */
  | (Fenced & { readonly type: "built"; readonly stored: boolean })
  /** A value was not stored, as its build is no longer the elected one. */
  | (Fenced & { readonly type: "commit-refused"; readonly reason: string })
  /** A build failed; until `retryAfterMs` have passed every caller is told so. */
  | (Fenced & { readonly type: "build-failed"; readonly retryAfterMs: number });

/** Anything that happens. */
export type LeaseholdEvent = LockEvent | CacheEvent;

/** Receives every event as it happens. Whatever it throws or rejects with is dropped. */
export type Observer = (event: LeaseholdEvent) => void;

/** Tells the observer, and changes nothing whatever it does. */
export function notify(observe: Observer | undefined, event: LeaseholdEvent): void {
  if (observe) (async () => observe(event))().catch(() => {});
}
