/**
 * The loop around one attempt to acquire, the same for one Redis and for a quorum.
 *
 * @module
 */
import { sleep } from "./clock.ts";
import type { Signal } from "./command.ts";
import type { LockContext } from "./context.ts";
import { failure, type LockError } from "./errors.ts";
import { notify } from "./events.ts";
import type { HeldLease } from "./lease.ts";
import { uniform } from "./random.ts";
import type { Cost } from "./round.ts";
import { estimateMs } from "./validity.ts";
import { retryDelayMs } from "./wait.ts";

/** What one attempt came to, and what it cost. */
export type Outcome = { readonly cost: Cost } & (
  | { readonly held: HeldLease; readonly error?: undefined; readonly again?: undefined }
  | {
      readonly held?: undefined;
      /** "contended" where another holds it. Its `retryAfterMs` bounds the next pause: from above there, else from below. */
      readonly error: LockError;
      /** When to try again; by the schedule unless it says otherwise. */
      readonly again?: "at once" | "never" | undefined;
    }
);

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
 * 2. Otherwise sleep by `wait.ts`, but so that the last try can still be answered before `waitMs` is over. The first try
 *    always has its whole node time-out, and so has one that is due at once; the last one has the floor at least, since a
 *    pause of this process must not turn "another holds it" into "unavailable".
 * 3. On giving up, whatever may have been left behind is rolled back before the error is thrown.
 */
export async function acquire(
  { env, nodes, floorMs, observe }: LockContext,
  attempts: Attempts,
  { name, waitMs, signal }: Waiting,
): Promise<HeldLease> {
  const startedAt = env.clock.now();
  const waitedMs = (): number => env.clock.now().monotonic - startedAt.monotonic;
  let requests = 0;
  let withinMs = Infinity;
  let failed: LockError | undefined;

  for (let retry = 1; !failed; retry += 1) {
    const { held, error, again, cost } = await attempts.next(signal, withinMs);
    requests += cost.requests;
    const happened = { name, nodes: cost.nodes, requests, durationMs: waitedMs() };
    if (held) {
      const { lease, holding } = held;
      notify(observe, { type: "acquired", fence: lease.fence, remainingMs: holding.remainingMs(), ...happened });
      return held;
    }
    if (signal?.aborted) {
      failed = failure("aborted", "acquire", name, "the caller's signal aborted", { cause: signal.reason });
      break;
    }
    const { nodes: reports, retryAfterMs = 0 } = error;
    const contended = error.code === "contended";
    if (contended) notify(observe, { type: "contended", retryAfterMs: error.retryAfterMs, ...happened });
    if (again === "at once") continue;

    const roundTripMs = Math.max(
      ...nodes.map(({ trip }) => (trip.smoothedMs === undefined ? 0 : estimateMs({ ...trip, backOff: 1 }))),
    );
    const leftMs = waitMs - waitedMs();
    const leastMs = contended ? 0 : retryAfterMs;
    const mostMs = leftMs - roundTripMs;
    if (again === "never" || mostMs <= leastMs) {
      failed = error;
      if (contended && waitMs) {
        const details = { nodes: reports, retryAfterMs: error.retryAfterMs, cause: error };
        failed = failure(
          "timeout",
          "acquire",
          name,
          `another held it for all of waitMs: current value is ${waitMs}`,
          details,
        );
      }
      break;
    }
    const holderMs = contended ? error.retryAfterMs : undefined;
    const chance = uniform(env.random, 0, 1);
    const pauseMs = Math.min(
      mostMs,
      Math.max(leastMs, retryDelayMs({ retry, waitedMs: waitedMs(), holderMs, chance })),
    );
    withinMs = Math.max(floorMs, leftMs - pauseMs);
    await sleep(env.clock, pauseMs, signal).catch(() => {}); // an abort is seen after the next try, which sends nothing
  }
  await attempts.giveUp();
  throw failed;
}
