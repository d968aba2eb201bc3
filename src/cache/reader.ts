/**
 * One caller of a read: what it asked for, how long it still waits, and what it is told, once.
 *
 * @module
 */
import type { Clock, Stamp } from "../clock.ts";
import type { Signal } from "../command.ts";
import type { WaitUntil } from "../context.ts";
import type { Environment } from "../environment.ts";
import { failure, type LockError, type LockErrorDetails } from "../errors.ts";
import type { CacheEvent } from "../events.ts";
import { type Answer, reportOf } from "../node.ts";
import type { Verdict } from "../script.ts";
import type { Place } from "./context.ts";

/** What every event of a read says. */
export type Happened = Pick<CacheEvent, "name" | "durationMs" | "requests" | "nodes">;

/** What a build is handed. */
export interface BuildContext {
  /** Aborts when nobody waits for this build any more. */
  readonly signal: Signal;
  /** Of this election: larger than that of any value stored before. 0 where Redis gave none. */
  readonly fence: number;
  /**
   * The value that is no longer fresh, where one is still there: whatever a build of this key once stored. Not typed, as
   * a type here would keep the compiler from inferring that of the build's result.
   */
  readonly stale: unknown;
}

/** What one caller asked for. */
export interface Wanted extends Place {
  readonly freshMs: number;
  readonly leaseMs: number;
  readonly waitMs: number;
  readonly onRedisDown: "build" | "throw";
  readonly signal: Signal | undefined;
  readonly waitUntil: WaitUntil | undefined;
  build(context: BuildContext): unknown;
}

/** What a reader is given. */
export interface Given {
  readonly payload: string;
  readonly status: "hit" | "built" | "waited";
  readonly fence: number;
  readonly stored: boolean;
}

/** Where a reader waits. */
export interface Seat {
  /** Its caller does not wait any more. */
  leave(reader: Reader): void;
  /** Its `waitMs` is over. */
  overdue(reader: Reader): void;
}

/** The first thing a reader is told is what its caller gets. */
export class Reader {
  readonly wanted: Wanted;
  readonly startedAt: Stamp;
  /** What the caller gets. */
  readonly given: Promise<Given>;
  /** Requests sent on its behalf; those that were sent for another are not its own. */
  requests = 0;
  /** How many questions its seat had asked when it sat down: it may take the outcome of later ones only. */
  satDownAt = 0;
  seat: Seat | undefined;
  /** It does not wait for another's build any more, but takes what a request under way brings. */
  isOverdue: boolean;
  #resolve: (given: Given) => void = () => {};
  #reject: (error: unknown) => void = () => {};
  readonly #clock: Clock;
  readonly #cancelTimer: () => void;

  constructor({ clock }: Environment, wanted: Wanted) {
    this.#clock = clock;
    this.wanted = wanted;
    this.startedAt = clock.now();
    this.isOverdue = wanted.waitMs === 0;
    this.given = new Promise((resolve, reject) => {
      this.#resolve = resolve;
      this.#reject = reject;
    });
    this.#cancelTimer = clock.after(wanted.waitMs, true, () => {
      this.isOverdue = true;
      this.seat?.overdue(this);
    });
    wanted.signal?.addEventListener("abort", this.#onAbort);
  }

  happened(answer: Answer<Verdict>): Happened {
    const { name } = this.wanted;
    const durationMs = Math.max(0, this.#clock.now().monotonic - this.startedAt.monotonic);
    return { name, durationMs, requests: this.requests, nodes: [reportOf(answer)] };
  }

  give(given: Given): void {
    this.#close();
    this.#resolve(given);
  }

  refuse(error: unknown): void {
    this.#close();
    this.#reject(error);
  }

  readonly #onAbort = (): void => {
    this.refuse(abortedError(this.wanted.name, this.wanted.signal));
    this.seat?.leave(this);
  };

  #close(): void {
    this.#cancelTimer();
    this.wanted.signal?.removeEventListener("abort", this.#onAbort);
  }
}

/** The caller's own signal ended the read. */
export function abortedError(name: string, signal: Signal | undefined): LockError {
  return failure("aborted", "get", name, "the caller's signal aborted", { cause: signal?.reason });
}

/** Another's build took longer than this reader waits. It may be over in `retryAfterMs`. */
export function overdueError({ name, waitMs }: Wanted, retryAfterMs: number | undefined): LockError {
  const contended = failure("contended", "get", name, "another builds it", { retryAfterMs });
  if (waitMs === 0) return contended;
  const reason = `another built it for all of waitMs: current value is ${waitMs}`;
  return failure("timeout", "get", name, reason, { retryAfterMs, cause: contended });
}

/** The build failed, for this reader or for one before it. */
export function failedError(name: string, details: LockErrorDetails): LockError {
  const reason = "cause" in details ? "its build failed" : "its build failed a moment ago, for another";
  return failure("build-failed", "get", name, reason, details);
}
