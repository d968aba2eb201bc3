/** A promise that was not kept. */

export interface Violation {
  /** The invariant, by its number in the protocol; I13 and later are explained in the checkers. */
  readonly invariant: string;
  readonly what: string;
  /** True time, in ms since the run began. */
  readonly atMs: number;
}

export type Report = (invariant: string, what: string) => void;
