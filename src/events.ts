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
  /** Since the operation began, in ms. */
  readonly durationMs: number;
  /** Requests that the operation has sent so far. */
  readonly requests: number;
  /** What each Redis answered, where one was asked. */
  readonly nodes: readonly NodeReport[];
}

interface Fenced extends Happened {
  readonly fence: number;
}

/** What a lock does. */
export type LockEvent =
  | (Fenced & { readonly type: "acquired"; readonly remainingMs: number })
  /** One try was refused; `retryAfterMs` is what is left of the holder's lease, where that is known. */
  | (Happened & { readonly type: "contended"; readonly retryAfterMs: number | undefined })
  | (Fenced & { readonly type: "extended" | "renewed"; readonly remainingMs: number })
  | (Fenced & { readonly type: "renewal-unknown"; readonly remainingMs: number })
  | (Fenced & { readonly type: "lost"; readonly by: LostBy })
  | (Fenced & { readonly type: "held-long" })
  | (Fenced & { readonly type: "released"; readonly outcome: "released" | "expired" | "stolen" })
  | (Fenced & { readonly type: "release-failed"; readonly code: LockErrorCode })
  /** The clean-up after an attempt whose outcome was unknown, or whose lease was too short to be used. */
  | (Happened & { readonly type: "rolled-back"; readonly confirmed: boolean })
  /** A node of a Redlock granted after the quorum had decided. */
  | (Fenced & { readonly type: "late-grant" });

/** What a guarded cache does. */
export type CacheEvent =
  | (Fenced & { readonly type: "hit" | "stale" | "elected" | "invalidated" })
  | (Fenced & { readonly type: "built"; readonly stored: boolean })
  | (Fenced & { readonly type: "commit-refused"; readonly reason: string })
  | (Happened & { readonly type: "build-failed"; readonly retryAfterMs: number });

/** Anything that happens. */
export type LeaseholdEvent = LockEvent | CacheEvent;

/** Receives every event as it happens. Whatever it throws or rejects with is dropped. */
export type Observer = (event: LeaseholdEvent) => void;

/** Tells the observer, and changes nothing whatever it does. */
export function notify(observe: Observer | undefined, event: LeaseholdEvent): void {
  (async () => observe?.(event))().catch(() => {});
}
