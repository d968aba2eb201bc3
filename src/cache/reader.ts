/**
 * One caller of a read: what it asked for, and what it is told.
 *
 * @module
 */
import type { Stamp } from "../clock.ts";
import type { Signal } from "../command.ts";
import type { WaitUntil } from "../context.ts";
import type { Place } from "./context.ts";

/** What a build is handed. */
export interface BuildContext {
  /** Aborts when nobody waits for this build any more. */
  readonly signal: Signal;
  /** Of this election: larger than that of any value stored before. 0 where Redis gave none. */
  readonly fence: number;
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

/** What a reader is told. */
export type Told = Given | { readonly error: unknown };

/** Where a reader waits. */
export interface Seat {
  /** Tells a reader what its own caller or clock has decided. */
  dismiss(reader: Reader, error: unknown): void;
  /** Dismisses those who are overdue, as far as they may be. */
  expire(): void;
}

/** A caller that waits. */
export interface Reader {
  readonly wanted: Wanted;
  readonly startedAt: Stamp;
  /** Requests sent on its behalf; those that were sent for another are not its own. */
  requests: number;
  /** Its `waitMs` is over: it takes what a request under way brings, and waits for no build but its own. */
  isOverdue: boolean;
  /** How many questions its flight had asked when it sat down. */
  satDownAt: number;
  seat?: Seat;
  /** Only the first call counts. */
  tell(told: Told): void;
}
