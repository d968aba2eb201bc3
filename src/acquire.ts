/**
 * The loop around one attempt to acquire, the same for one Redis and for a quorum.
 *
 * @module
 */
import { msSince, sleep } from "./clock.ts";
import type { Signal } from "./command.ts";
import type { LockContext } from "./context.ts";
import { failure, type LockError } from "./errors.ts";
import { notify } from "./events.ts";
import { type Grant, usableMs } from "./holding.ts";
import { createLease, type HeldLease } from "./lease.ts";
import { chance } from "./random.ts";
import type { Cost } from "./round.ts";
import { flightMs, isTooShort, leastUsefulLeaseMs, quorumTrip } from "./validity.ts";
import { retryDelayMs } from "./wait.ts";

/** What one attempt came to, and what it cost. */
export type Outcome = { readonly cost: Cost } & (
  | { readonly held: HeldLease; readonly error?: undefined; readonly atOnce?: undefined }
  | {
      readonly held?: undefined;
      /** "contended" where another holds it. Its `retryAfterMs` bounds the next pause: from above there, else from below. */
      readonly error: LockError;
      /** Try again at once, instead of by the schedule. */
      readonly atOnce?: boolean;
    }
);

/** How one kind of lock tries, with what it must remember between tries. */
export interface Attempts {
  /**
   * Tries once, and answers within `withinMs` where that is shorter than the node time-outs. Never hangs. Rejects where
   * trying again is of no use.
   */
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
 * 2. Otherwise sleep by `wait.ts`, but so that the last try can still be answered before `waitMs` is over. The first try
 *    always has its whole node time-out, and so has one that is due at once; the last one has the floor at least, since a
 *    pause of this process must not turn "another holds it" into "unavailable".
 * 3. On giving up, whatever may have been left behind is rolled back before the error is thrown.
 */
export async function acquire(
  { env: { clock, random }, nodes, quorum, floorMs, observe }: LockContext,
  attempts: Attempts,
  { name, waitMs, signal }: Waiting,
): Promise<HeldLease> {
  const startedAt = clock.now();
  let requests = 0;
  let withinMs = Infinity;
  try {
    for (let retry = 1; ; retry += 1) {
      const { held, error, atOnce, cost } = await attempts.next(signal, withinMs);
      requests += cost.requests;
      const waitedMs = msSince(clock, startedAt);
      const happened = { ...cost, name, requests, durationMs: waitedMs };
      if (held) {
        if (observe) held.holding.tell({ type: "acquired", remainingMs: held.lease.remaining(), ...happened });
        return held;
      }
      if (signal?.aborted) {
        throw failure("aborted", "acquire", name, "the caller's signal aborted", { cause: signal.reason });
      }
      const { retryAfterMs } = error;
      const contended = error.code === "contended";
      if (atOnce) continue;
      if (contended) notify(observe, { type: "contended", retryAfterMs, ...happened });

      const leftMs = waitMs - waitedMs;
      const leastMs = contended ? 0 : (retryAfterMs ?? 0);
      const mostMs = leftMs - (quorumTrip(nodes, quorum).smoothedMs ?? 0);
      if (mostMs <= leastMs) {
        if (!contended || !waitMs) throw error;
        const reason = `another holds it after ${waitMs} ms`;
        throw failure("timeout", "acquire", name, reason, { ...error, cause: error });
      }
      const holderMs = contended ? retryAfterMs : undefined;
      const delayMs = retryDelayMs({ retry, waitedMs, holderMs, chance: chance(random) });
      const pauseMs = Math.min(mostMs, Math.max(leastMs, delayMs));
      withinMs = Math.max(floorMs, leftMs - pauseMs);
      await sleep(clock, pauseMs, signal).catch(() => {}); // an abort is seen after the next try, which sends nothing
    }
  } catch (error) {
    const told = { nodes: [], ...(error as LockError), name, requests, durationMs: msSince(clock, startedAt) };
    notify(observe, { type: "acquire-failed", ...told });
    await attempts.giveUp();
    throw error;
  }
}

/** What a quorum of grants comes to: its lease, or "config" where too little of it is left to be of use. */
export function granted(context: LockContext, grant: Omit<Grant, "flightMs">, cost: Cost): Outcome {
  const { nodes, quorum, driftFactor } = context;
  const { name, leaseMs } = grant;
  const trip = quorumTrip(nodes, quorum);
  const whole = { ...grant, flightMs: flightMs(trip, leaseMs) };
  if (!isTooShort(usableMs(context, whole), leaseMs)) return { held: createLease(context, whole), cost };
  const reason =
    `leaseMs ${leaseMs} is too short for a round trip of ${Math.ceil(cost.durationMs)} ms: ` +
    `use ${leastUsefulLeaseMs(trip, driftFactor)} or more`;
  return { error: failure("config", "acquire", name, reason, { nodes: cost.nodes }), cost };
}
