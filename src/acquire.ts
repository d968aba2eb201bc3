/**
 * The loop around one attempt to acquire, the same for one Redis and for a quorum.
 *
 * @module
 */
import { sleep } from "./clock.ts";
import type { Signal } from "./command.ts";
import type { LockContext } from "./context.ts";
import { LockError, type NodeReport } from "./errors.ts";
import { notify } from "./events.ts";
import type { HeldLease } from "./lease.ts";
import { uniform } from "./random.ts";
import { estimateMs } from "./validity.ts";
import { retryDelayMs } from "./wait.ts";

/** What one attempt came to. */
export type Verdict =
  | { readonly type: "granted"; readonly held: HeldLease }
  /** Another holds it; `holderMs` is what is left of that lease, where somebody said. */
  | { readonly type: "held"; readonly holderMs: number | undefined }
  /** Worth another try after a pause, or at once where `again` says so, even if nothing is left of `waitMs`. */
  | { readonly type: "failed"; readonly error: LockError; readonly again: boolean }
  /** Not mended by trying again. */
  | { readonly type: "refused"; readonly error: LockError };

/** A verdict, what it cost and who said what. */
export type Outcome = Verdict & { readonly requests: number; readonly nodes: readonly NodeReport[] };

/** How one kind of lock tries, with what it must remember between tries. */
export interface Attempts {
  /** Tries once, and answers within `withinMs` where that is shorter than the node time-outs. Never hangs. */
  next(signal: Signal | undefined, withinMs: number): Promise<Outcome>;
  /** Nothing more is tried: cleans up what an unanswered try may have left, if there was one. Never rejects. */
  giveUp(): Promise<void>;
}

/** What the caller of an acquire may say. */
export interface Waiting {
  readonly name: string;
  readonly waitMs: number;
  readonly signal: Signal | undefined;
}

/**
 * Tries until the lock is granted, the waiting is over, or trying is of no use.
 *
 * 1. A grant is returned, also one that arrives as the time runs out.
 * 2. Refused or failed: sleep by `wait.ts`, but so that the last try can still be answered before `waitMs` is over; the
 *    first try always has its whole node time-out.
 * 3. On giving up, whatever may have been left behind is rolled back before the error is thrown.
 */
export async function acquire(
  context: LockContext,
  attempts: Attempts,
  { name, waitMs, signal }: Waiting,
): Promise<HeldLease> {
  const { env, observe } = context;
  const startedAt = env.clock.now();
  const waited = (): number => env.clock.now().monotonic - startedAt.monotonic;
  let requests = 0;
  let withinMs = Number.POSITIVE_INFINITY;

  const giveUp = async (error: LockError): Promise<never> => {
    await attempts.giveUp();
    throw error;
  };

  for (let retry = 1; ; retry += 1) {
    if (signal?.aborted) return giveUp(abortedError(name, signal));
    const outcome = await attempts.next(signal, withinMs);
    requests += outcome.requests;
    const happened = { name, requests, durationMs: waited(), nodes: outcome.nodes };
    if (outcome.type === "granted") {
      const { lease, holding } = outcome.held;
      notify(observe, { type: "acquired", fence: lease.fence, remainingMs: holding.remainingMs(), ...happened });
      return outcome.held;
    }
    if (signal?.aborted) return giveUp(abortedError(name, signal));
    if (outcome.type === "refused") return giveUp(outcome.error);
    if (outcome.type === "failed" && outcome.again) continue;

    const holderMs = outcome.type === "held" ? outcome.holderMs : undefined;
    if (outcome.type === "held") notify(observe, { type: "contended", retryAfterMs: holderMs, ...happened });
    const roundTripMs = Math.max(
      ...context.nodes.map(({ trip }) => (trip.smoothedMs === undefined ? 0 : estimateMs(trip))),
    );
    const leftMs = waitMs - waited();
    const lastTryInMs = leftMs - roundTripMs;
    const askedToWaitMs = outcome.type === "failed" ? (outcome.error.retryAfterMs ?? 0) : 0;
    if (lastTryInMs <= 0 || askedToWaitMs > lastTryInMs) {
      return giveUp(outcome.type === "failed" ? outcome.error : heldError(name, waitMs, holderMs, outcome.nodes));
    }
    const chance = uniform(env.random, 0, 1);
    const delayMs = Math.max(askedToWaitMs, retryDelayMs({ retry, waitedMs: waited(), holderMs, chance }));
    const sleptMs = Math.min(delayMs, lastTryInMs);
    withinMs = Math.max(roundTripMs, leftMs - sleptMs);
    await sleep(env.clock, sleptMs, signal).catch(() => {}); // an abort is seen at the top
  }
}

function heldError(
  name: string,
  waitMs: number,
  holderMs: number | undefined,
  nodes: readonly NodeReport[],
): LockError {
  const details = { lockName: name, nodes, retryAfterMs: holderMs };
  const contended = new LockError("contended", `Cannot acquire "${name}" as another holds it`, details);
  if (waitMs === 0) return contended;
  const message = `Cannot acquire "${name}" as another held it for all of waitMs: current value is ${waitMs}`;
  return new LockError("timeout", message, { ...details, cause: contended });
}

function abortedError(name: string, { reason }: Signal): LockError {
  return new LockError("aborted", `Cannot acquire "${name}" as the caller's signal aborted`, {
    lockName: name,
    cause: reason,
  });
}
