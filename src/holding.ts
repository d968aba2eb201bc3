/**
 * What a holder knows of its lease, per node, and the rounds of extends that refresh it. The same for one Redis and for
 * a quorum; `lease.ts` is its public face.
 *
 * @module
 */
import { elapsedMs, type Stamp } from "./clock.ts";
import type { Signal } from "./command.ts";
import type { LockContext } from "./context.ts";
import { failure, type LockError, type LostBy } from "./errors.ts";
import { type LockEvent, notify } from "./events.ts";
import type { LockKeys } from "./keys.ts";
import { askAll, type Cost, type Round } from "./round.ts";
import { type ExtendReply, extendScript } from "./scripts/extend.ts";
import { quorumRemainingMs, remainingMs } from "./validity.ts";

/** What one node has said of this token. */
export interface Hold {
  /** What is left of the lease by its latest word, now; may be negative. */
  leftMs: () => number;
  /** It said that it does not keep the lease; for a token that is final. */
  gone?: "expired" | "stolen";
  /** Some acquire of this token was sent there and never definitely answered, so a copy may still land. */
  uncertain: boolean;
}

/** Until when a node keeps a lease, by its reply: counted from before the request was sent, on both clocks. */
export function boundOf(
  { env, driftFactor }: LockContext,
  { sentAt }: { readonly sentAt: Stamp },
  keptMs: number,
  leaseMs: number,
): () => number {
  return () =>
    remainingMs({ remainingMs: keptMs, elapsedMs: elapsedMs(sentAt, env.clock.now()), leaseMs }, driftFactor);
}

/** What an acquisition brought. */
export interface Grant {
  readonly name: string;
  readonly keys: LockKeys;
  readonly token: string;
  readonly fence: number;
  readonly leaseMs: number;
  /** Fixed for the life of the lease: what the holder's next write may take to land. */
  readonly flightMs: number;
  /** One for each node, in order. */
  readonly holds: readonly Hold[];
}

/** An event of one lease, without what the lease itself adds. */
type LeaseEvent<Event = LockEvent> = Event extends { readonly fence: number }
  ? Omit<Event, "name" | "fence" | keyof Cost>
  : never;

/** A lease from the inside. Once over it is over for ever, whether lost or let go. */
export class Holding {
  readonly context: LockContext;
  readonly grant: Grant;
  /** Aborts at the deadline, on loss, or with a caller's reason; never once the lease was let go. */
  readonly controller: { readonly signal: Signal; abort(reason?: unknown): void } = new AbortController();
  #endedBy: LostBy | "released" | undefined;
  #error: LockError | undefined;
  #cancelDeadline: () => void = () => {};

  constructor(context: LockContext, grant: Grant) {
    this.context = context;
    this.grant = grant;
  }

  /** How the lease ended; undefined while it is held. */
  get endedBy(): LostBy | "released" | undefined {
    this.remainingMs();
    return this.#endedBy;
  }

  /** The error of a lease that has ended: one object for the signal and for whatever asks. */
  get error(): LockError {
    const lostBy = this.#endedBy ?? "expired";
    this.#error ??= failure("lost", "use the lease on", this.grant.name, endings[lostBy], { lostBy });
    return this.#error;
  }

  /**
   * Whole ms in which a write may still be started, 0 when over. Looks at the clocks, so it is right before any timer
   * has run, as after a freeze; the look that finds the deadline passed loses the lease.
   */
  remainingMs(): number {
    const left = Math.floor(this.usableMs());
    if (left <= 0) this.finish("expired");
    return this.#endedBy ? 0 : left;
  }

  /** What is left by both clocks, whether or not the lease is over; may be negative. */
  usableMs(): number {
    const perNode = this.grant.holds.map(({ gone, leftMs }) => (gone ? -Infinity : leftMs()));
    return quorumRemainingMs(perNode, this.context.quorum) - this.grant.flightMs;
  }

  /** Starts the watch over the deadline, which keeps no process alive. */
  watch(): void {
    this.#cancelDeadline();
    this.#cancelDeadline = this.context.env.clock.after(Math.max(1, this.usableMs()), false, () => {
      if (this.remainingMs()) this.watch();
    });
  }

  /** Ends the lease. A loss is told to the holder; "released" is the holder's own doing. */
  finish(by: LostBy | "released"): void {
    if (this.#endedBy) return;
    this.#endedBy = by;
    this.#cancelDeadline();
    if (by === "released") return;
    this.controller.abort(this.error);
    this.tell({ type: "lost", by });
  }

  /** Tells the observer what happened to this lease. */
  tell(event: LeaseEvent, cost: Cost = { nodes: [], requests: 0, durationMs: 0 }): void {
    const { name, fence } = this.grant;
    notify(this.context.observe, { name, fence, ...event, ...cost } as LockEvent);
  }

  /**
   * Asks every node once for a lease of `leaseMs` from now. A node that answers "extended" moves its own bound, one that
   * does not answer keeps it, and one that says "not yours" is gone for this token. Needs a quorum of extensions; fewer
   * are no loss as long as the old bounds last. Lost is: the deadline has passed, or more than N - q nodes are gone.
   */
  async extend(leaseMs: number, keepsAlive: boolean): Promise<{ extended: boolean; round: Round<ExtendReply> }> {
    const { nodes, quorum } = this.context;
    const { keys, token, holds } = this.grant;
    const question = { script: extendScript, keys: [keys.lock], args: [token, leaseMs], leaseMs, keepsAlive };
    const tooManyGone = (): boolean => holds.filter(({ gone }) => gone).length > nodes.length - quorum;
    let extensions = 0;
    const round = await askAll(this.context, question, (answer, index) => {
      const hold = holds[index];
      if (answer.kind === "reply" && hold) {
        const { type, remainingMs } = answer.reply;
        if (type !== "extended") hold.gone = type === "foreign" ? "stolen" : "expired";
        else if (!hold.gone) {
          extensions += 1;
          const leftMs = boundOf(this.context, answer, remainingMs, leaseMs);
          if (leftMs() > hold.leftMs()) hold.leftMs = leftMs;
        }
      }
      return extensions >= quorum || tooManyGone();
    });
    if (tooManyGone()) this.finish(holds.some(({ gone }) => gone === "stolen") ? "stolen" : "expired");
    if (!this.endedBy) this.watch();
    return { extended: extensions >= quorum, round };
  }
}

const endings: Record<LostBy | "released", string> = {
  expired: "it is no longer held: its time is up, or its key is gone",
  stolen: "it is no longer held: token differs",
  maxHold: "it is no longer held: maxHoldMs has passed",
  released: "it was released",
};
