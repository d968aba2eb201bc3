/**
 * What a diagnosis is made of.
 *
 * @module
 */

/**
 * - "error": a promise of the lock does not hold here, or no lock works.
 * - "warning": one will not hold when something else happens.
 * - "unknown": the server does not let itself be asked, or the answer says too little.
 * - "ok": looked at, and in order.
 */
export type Severity = "error" | "warning" | "unknown" | "ok";

/** What a finding is about. Stable strings. */
export type FindingCode =
  | "reachable"
  | "clock"
  | "version"
  | "scripts"
  | "script-header"
  | "compare-and-set"
  | "role"
  | "replicas"
  | "eviction"
  | "persistence"
  | "independence"
  | "round-trip";

/** One thing that was looked at. Holds no secret. */
export interface Finding {
  readonly severity: Severity;
  readonly code: FindingCode;
  /** The label of the Redis that it is about; absent where it is about all of them. */
  readonly node?: string;
  /** What was found, in words. */
  readonly finding: string;
  /** What it means for the lock. */
  readonly meaning: string;
  /** What to do; empty where nothing is. */
  readonly remedy: string;
}

/** A finding of one code about one node, from three sentences. */
export type Say = (severity: Severity, finding: string, meaning: string, remedy?: string) => Finding;

/** Names the node and the code once. */
export function about(code: FindingCode, node?: string): Say {
  return (severity, finding, meaning, remedy = "") => ({
    severity,
    code,
    ...(node === undefined ? {} : { node }),
    finding,
    meaning,
    remedy,
  });
}
