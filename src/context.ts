/**
 * The settings of one lock and who takes part: what every step of the algorithm is handed.
 *
 * @module
 */
import type { Environment } from "./environment.ts";
import type { Observer } from "./events.ts";
import type { LockKeys } from "./keys.ts";
import type { Node } from "./node.ts";

/** Receives work that may outlive the call, such as `ctx.waitUntil` of a Worker; it must be bound to its object. */
export type WaitUntil = (work: Promise<unknown>) => void;

/** The settings of one lock, and who takes part. */
export interface LockContext {
  readonly env: Environment;
  readonly nodes: readonly Node[];
  readonly quorum: number;
  readonly driftFactor: number;
  /** The least node time-out. */
  readonly floorMs: number;
  /** No lease may be longer, where there is a bound. */
  readonly longestMs?: number | undefined;
  readonly observe: Observer | undefined;
  readonly waitUntil: WaitUntil | undefined;
}

/** What one acquisition asks for. */
export interface Wanted {
  readonly name: string;
  readonly keys: LockKeys;
  readonly leaseMs: number;
}

/**
 * Awaits work that may outlive the call, or hands it over where the host takes it. Never rejects: a `waitUntil` that
 * throws, as one that is not bound to its object does, must not hide what the call came to.
 */
export function settle({ waitUntil }: Pick<LockContext, "waitUntil">, work: Promise<unknown>): Promise<unknown> {
  const settled = work.catch(() => {});
  return waitUntil ? (async () => waitUntil(settled))().catch(() => settled) : settled;
}
