/**
 * One caller of a read: what it asked for, and what it is told.
 *
 * @module
 */
import type { Signal } from "../command.ts";
import type { WaitUntil } from "../context.ts";
import type { Doing } from "./context.ts";
import type { Nesting } from "./nesting.ts";

/** What a build is handed. */
export interface BuildContext {
  /**
   * Aborts when the value is of no use any more: nobody waits for it, its election is lost (another was elected, or the
   * entry was invalidated), or it has taken too long, which its reason says then.
   */
  readonly signal: Signal;
  /** Of this election: larger than that of any value stored before. 0 where Redis gave none. */
  readonly fence: number;
  /** The old value, undefined where there is none that is of use: to ask only for what has changed since. */
  readonly stale: unknown;
}

/** What one caller asked for, as `GetOptions` says, with the defaults that hold everywhere. */
export interface CheckedOptions {
  readonly freshMs: number;
  readonly staleMs: number;
  readonly errorMs: number;
  readonly negativeMs?: number;
  readonly leaseMs: number;
  readonly maxHoldMs?: number;
  readonly softTimeoutMs?: number;
  readonly hardTimeoutMs?: number;
  readonly waitMs: number;
  readonly onRedisDown: "build" | "throw";
  readonly signal?: Signal | undefined;
  readonly waitUntil: WaitUntil | undefined;
}

/** What a value is stored with: how long it is fresh, and of use. */
export function livesOf({ freshMs, staleMs, errorMs }: CheckedOptions): readonly number[] {
  return [freshMs, freshMs + Math.max(staleMs, errorMs)];
}

/** What a reader is given. */
export interface Given {
  readonly payload: string;
  readonly status: "hit" | "stale" | "built" | "waited";
  readonly fence: number;
  readonly stored: boolean;
}

/** What a reader is told. */
export type Told = Given | { readonly error: unknown };

/** Where a reader waits. */
export interface Seat {
  /** Refuses those who are overdue, as far as they may be. */
  expire(): void;
  /** A reader has left, or was told something: gives up where nobody is left. */
  leave(reader?: Reader): void;
  /** A build is slow for this reader: looks for a value that is no older than readers take where one fails. */
  rescue(reader: Reader): Promise<void>;
}

/** A caller that waits. Requests that were sent for another are not its own. */
export interface Reader extends CheckedOptions, Doing {
  build(context: BuildContext): unknown;
  /** Its `waitMs` is over: it takes what a request under way brings, and waits for no build but its own. */
  isOverdue?: boolean;
  flight?: Seat;
  /** The build that it was called in. */
  readonly outer: Nesting | undefined;
  /** Only the first call counts. */
  tell(told: Told): void;
}
