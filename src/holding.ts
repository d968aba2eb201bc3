/**
 * What a holder knows of its lease, per node, and the rounds of extends that refresh it. The same for one Redis and for
 * a quorum; `lease.ts` is its public face.
 *
 * @module
 */
import { elapsedMs, type Stamp } from "./clock.ts";
import type { Signal } from "./command.ts";
import type { LockContext, Wanted } from "./context.ts";
import { failure, type LockError, type LostBy } from "./errors.ts";
import { type LockEvent, notify } from "./events.ts";
import { askAll, type Cost, type Round } from "./round.ts";
import { type ExtendReply, extendScript } from "./scripts/extend.ts";
import { quorumRemainingMs, remainingMs } from "./validity.ts";

/** A node's word that a token holds its key. */
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
   * Whole ms in which a write may still be started, 0 when over. Looks at the clocks, so it is right before any timer
   * has run, as after a freeze; the look that finds the deadline passed loses the lease.
   */
  remainingMs(): number;
  /** How the lease ended; undefined while it is held. Looks at the clocks as well. */
  ending(): Ending | undefined;
  /** The error of a lease that has ended: one object for the signal and for whatever asks. */
  lostError(): LockError;
  /** Ends the lease. A loss is told to the holder. */
  end(by: Ending): void;
  /** Tells the observer what happened to this lease. */
  tell(event: LeaseEvent): void;
  /** A round of {@link extendHolds}, and what follows from it for this lease. */
  extend(leaseMs: number, keepsAlive: boolean): Promise<Extension>;
}

/** What a round of extends came to. */
export interface Extension {
  /** Whether a quorum was extended. Fewer are no loss as long as the old bounds last. */
  readonly extended: boolean;
  readonly round: Round<ExtendReply>;
}

/** Holds what was granted: watches over its deadline, which keeps no process alive. */
export function createHolding(context: LockContext, grant: Grant): Holding {
  const { name, fence } = grant;
  const controller = new AbortController();
  let endedBy: Ending | undefined;
  let error: LockError | undefined;
  let cancelDeadline = (): void => {};

  const remainingMs = (): number => {
    const left = Math.floor(usableMs(context, grant));
    if (left <= 0) end("expired");
    return endedBy ? 0 : left;
  };
  const ending = (): Ending | undefined => {
    remainingMs();
    return endedBy;
  };
  const watch = (): void => {
    cancelDeadline();
    cancelDeadline = context.env.clock.after(Math.max(1, usableMs(context, grant)), false, () => {
      if (!ending()) watch();
    });
  };
  const lostError = (): LockError => {
    const lostBy = endedBy ?? "expired";
    error ??= failure("lost", "use the lease on", name, endings[lostBy], { lostBy });
    return error;
  };
  const tell = (event: LeaseEvent): void => {
    notify(context.observe, { name, fence, nodes: [], requests: 0, durationMs: 0, ...event } as LockEvent);
  };
  const end = (by: Ending): void => {
    if (endedBy) return;
    endedBy = by;
    cancelDeadline();
    if (by === "released") return;
    controller.abort(lostError());
    tell({ type: "lost", by });
  };
  // Also of a node that answers after its round was decided.
  const heard = (): boolean => {
    const lostBy = lossOf(context, grant);
    if (lostBy) end(lostBy);
    if (ending()) return true;
    watch();
    return false;
  };
  const extend = (leaseMs: number, keepsAlive: boolean): Promise<Extension> =>
    extendHolds(context, grant, { leaseMs, keepsAlive }, heard);

  watch();
  return { context, grant, controller, remainingMs, ending, lostError, end, tell, extend };
}

/** What is left of a grant by both clocks, whether or not its lease is over; may be negative. */
export function usableMs(context: LockContext, { holds, flightMs }: Grant): number {
  const perNode = holds.map((hold) => (hold.gone ? -Infinity : leftMs(context, hold)));
  return quorumRemainingMs(perNode, context.quorum) - flightMs;
}

function leftMs({ env, driftFactor }: LockContext, { sentAt, ...bound }: Word): number {
  return remainingMs({ ...bound, elapsedMs: elapsedMs(sentAt, env.clock.now()) }, driftFactor);
}

/** Lost is: more than N - q nodes do not keep the lease; stolen: so many are known to be another's. */
function lossOf({ nodes, quorum }: LockContext, { holds }: Grant): LostBy | undefined {
  const gone = holds.flatMap((hold) => hold.gone ?? []);
  const spare = nodes.length - quorum;
  if (gone.length <= spare) return undefined;
  return gone.filter((why) => why === "foreign").length > spare ? "stolen" : "expired";
}

/**
 * Asks every node once for a lease of `leaseMs` from now. A node that answers "extended" moves its own bound, one that
 * does not answer keeps it, and one that says "not yours" is gone for this token. Decided once a quorum is extended or
 * cannot be any more, or `heard`, which is called after each answer, says that the lease is over.
 */
async function extendHolds(
  context: LockContext,
  { keys, token, holds }: Grant,
  { leaseMs, keepsAlive }: { readonly leaseMs: number; readonly keepsAlive: boolean },
  heard: () => boolean,
): Promise<Extension> {
  const { nodes, quorum } = context;
  const question = { script: extendScript, keys: [keys.lock], args: [token, leaseMs], leaseMs, keepsAlive };
  let extensions = 0;
  let misses = 0;
  const round = await askAll(context, question, ({ reply, sentAt }, index) => {
    const hold = holds[index];
    if (reply?.type === "extended" && hold && !hold.gone) {
      extensions += 1;
      const word = { sentAt, remainingMs: reply.remainingMs, leaseMs };
      if (leftMs(context, word) > leftMs(context, hold)) Object.assign(hold, word);
    } else {
      misses += 1;
      if (reply && reply.type !== "extended" && hold) hold.gone = reply.type;
    }
    return heard() || extensions >= quorum || misses > nodes.length - quorum;
  });
  return { extended: extensions >= quorum, round };
}

const endings: Record<Ending, string> = {
  expired: "it is no longer held: its time is up, or its key is gone",
  stolen: "it is no longer held: token differs",
  maxHold: "it is no longer held: maxHoldMs has passed",
  released: "it was released",
};
