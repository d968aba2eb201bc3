/** A promise that was not kept. */

export interface Violation {
  /** By its name in the checkers. */
  readonly invariant: string;
  readonly what: string;
  /** True time, in ms since the run began. */
  readonly atMs: number;
}

export type Report = (invariant: string, what: string) => void;
