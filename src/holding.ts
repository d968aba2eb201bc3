/**
 * What a holder knows of its lease, per node, and the rounds of extends that refresh it. The same for one Redis and for
 * a quorum; `lease.ts` is its public face.
 *
 * @module
 */
import { elapsedMs, type Stamp } from "./clock.ts";
import type { Signal } from "./command.ts";
import type { LockContext, Wanted } from "./context.ts";
import { failure, type LockError, type LostBy, type NodeReport } from "./errors.ts";
import { type LockEvent, notify } from "./events.ts";
import { type Answer, reportOf, tooFewAnswers } from "./node.ts";
import { askAll, type Cost } from "./round.ts";
import { type ExtendReply, extendScript } from "./scripts/extend.ts";
import { nodeRemainingMs, quorumRemainingMs } from "./validity.ts";

/** A node's word that a token holds its key: a `Bound`, with the instant from which its time is counted. */
interface Word {
  /** Just before the request was sent that it answered. */
  readonly sentAt: Stamp;
  readonly remainingMs: number;
  readonly leaseMs: number;
}

/** What one node has said of this token. */
export interface Hold extends Word {
  /** It said that it does not keep the lease; for a token that is final. */
  gone?: "absent" | "foreign";
  /** Some acquire of this token was sent there and never definitely answered, so a copy may still land. */
  uncertain: boolean;
}

/** What an acquisition brought. */
export interface Grant extends Wanted {
  readonly token: string;
  readonly fence: number;
  /** Fixed for the life of the lease: what the holder's next write may take to land. */
  readonly flightMs: number;
  /** One for each node, in order. */
  readonly holds: readonly Hold[];
}

/** How a lease ended: a loss, or the holder's own doing. */
export type Ending = LostBy | "released";

/** An event of one lease, without what the lease itself adds. */
type LeaseEvent<Event = LockEvent> = Event extends { readonly fence: number }
  ? Omit<Event, "name" | "fence" | keyof Cost> & Partial<Cost>
  : never;

/** A lease from the inside. Once over it is over for ever, whether lost or let go. */
export interface Holding {
  readonly context: LockContext;
  readonly grant: Grant;
  /** Aborts at the deadline, on loss, or with a caller's reason; never once the lease was let go. */
  readonly controller: { readonly signal: Signal; abort(reason?: unknown): void };
  /**
   * Where anyone is to be told of the deadline, looks and then waits for it: for an observer or, once `isTaken`, for whoever
   * has the signal. For all others their next look is soon enough, and a lease without a timer is cheaper.
   */
  watch(isTaken?: boolean): void;
  /**
   * Whole ms in which a write may still be started, 0 when over. Looks at the clocks, so it is right before any timer
   * has run, as after a freeze; the look that finds the deadline passed loses the lease.
   */
  remainingMs(): number;
  /** How the lease ended; undefined while it is held. Looks at the clocks as well. */
  ending(): Ending | undefined;
  assertHeld(): void;
  /** The error of a lease that has ended: one object for the signal and for whatever asks. */
  lostError(): LockError;
  /** Ends the lease. A loss is told to the holder. */
  end(by: Ending): void;
  /** Tells the observer what happened to this lease. */
  tell(event: LeaseEvent): void;
  /**
   * Asks every node once for a lease of `leaseMs` from now. A node that answers "extended" moves its own bound, one that
   * does not answer keeps it, and one that says "not yours" is gone for this token: more than N - q of these lose the
   * lease. Decided once a quorum is extended, or cannot be any more: no loss as long as the old bounds last.
   *
   * @throws LockError "lost" when it is over, before or after; "unavailable" when fewer than a quorum were extended
   */
  extend(leaseMs: number, type: "extended" | "renewed"): Promise<void>;
}

/** Holds what was granted. Watching over its deadline keeps no process alive. */
export function createHolding(context: LockContext, grant: Grant): Holding {
  const { env, nodes, quorum, observe } = context;
  const { name, keys, token, fence, holds } = grant;
  const spare = nodes.length - quorum;
  const controller = new AbortController();
  let audience: unknown = observe;
  let endedBy: Ending | undefined;
  let error: LockError | undefined;
  let cancelDeadline: (() => void) | undefined;
  const reports: NodeReport[] = []; // by node, with holes

  const remainingMs = (): number => {
    const left = Math.floor(usableMs(context, grant));
    if (left <= 0) end(holds.filter(({ gone }) => gone === "foreign").length > spare ? "stolen" : "expired");
    return endedBy ? 0 : left;
  };
  const ending = (): Ending | undefined => {
    remainingMs();
    return endedBy;
  };
  const watch = (isTaken?: boolean): void => {
    audience ||= isTaken;
    cancelDeadline?.();
    if (audience && !ending()) cancelDeadline = env.clock.after(usableMs(context, grant), false, watch);
  };
  const lostError = (): LockError =>
    (error ??= failure("lost", "use the lease on", name, `it is no longer held: ${endedBy}`, {
      lostBy: endedBy,
      nodes: reports.flat(),
    }));
  const tell = (event: LeaseEvent): void => {
    notify(observe, { name, fence, nodes: reports.flat(), requests: 0, durationMs: 0, ...event } as LockEvent);
  };
  const end = (by: Ending): void => {
    if (endedBy) return;
    endedBy = by;
    cancelDeadline?.();
    if (by === "released") return;
    controller.abort(lostError());
    tell({ type: "lost", by });
  };
  const assertHeld = (): void => {
    if (ending()) throw lostError();
  };
  const extend: Holding["extend"] = async (leaseMs, type) => {
    assertHeld();
    const keepsAlive = type === "extended";
    const question = { script: extendScript, keys: [keys.lock], args: [token, leaseMs], leaseMs, keepsAlive };
    let extensions = 0;
    let misses = 0;
    const { answers, cost } = await askAll(context, question, (answer, index) => {
      reports[index] = reportOf(answer);
      // Over is for ever, also where nobody has looked since the deadline passed, as during a freeze.
      if (!ending() && hear(context, holds[index] as Hold, answer, leaseMs)) extensions += 1;
      else misses += 1;
      watch(); // also where the round was decided before
      return extensions >= quorum || misses > spare;
    });
    assertHeld();
    const extended = extensions >= quorum;
    if (extended || !keepsAlive) {
      tell({ type: extended ? type : "renewal-unknown", remainingMs: remainingMs(), ...cost });
    }
    if (!extended) throw tooFewAnswers("extend the lease on", name, answers);
  };

  watch();
  return { context, grant, controller, watch, remainingMs, ending, assertHeld, lostError, end, tell, extend };
}

/** What a node says to an extend moves its bound, or ends it. Returns whether it has extended. */
function hear(context: LockContext, hold: Hold, { reply, sentAt }: Answer<ExtendReply>, leaseMs: number): boolean {
  if (reply && reply.type !== "extended") hold.gone = reply.type;
  if (!reply || hold.gone) return false;
  const word = { sentAt, remainingMs: reply.remainingMs, leaseMs };
  if (leftMs(context, word) > leftMs(context, hold)) Object.assign(hold, word);
  return true;
}

/** What is left of a grant by both clocks, whether or not its lease is over; may be negative. */
export function usableMs(context: LockContext, { holds, flightMs }: Grant): number {
  const perNode = holds.map((hold) => (hold.gone ? -Infinity : leftMs(context, hold)));
  return quorumRemainingMs(perNode, context.quorum) - flightMs;
}

function leftMs({ env, driftFactor }: LockContext, { sentAt, remainingMs, leaseMs }: Word): number {
  // A server whose clock stepped back says more than was asked for, until it is set right and the key ends at once.
  const bound = { elapsedMs: elapsedMs(sentAt, env.clock.now()), remainingMs: Math.min(remainingMs, leaseMs), leaseMs };
  return nodeRemainingMs(bound, driftFactor);
}
