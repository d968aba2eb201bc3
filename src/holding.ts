/**
 * What a holder knows of its lease, per node, and the rounds of extends that refresh it. The same for one Redis and for
 * a quorum; `lease.ts` is its public face.
 *
 * @module
 */
import { elapsedMs, type Stamp } from "./clock.ts";
import type { LockContext } from "./context.ts";
import { type LockError, type LostBy, lostError, type NodeReport } from "./errors.ts";
import { notify } from "./events.ts";
import type { LockKeys } from "./keys.ts";
import { type Answer, askEach, reportOf, tooFewAnswers } from "./node.ts";
import { type ExtendReply, extendScript } from "./scripts/extend.ts";
import { nodeTimeoutMs, quorumRemainingMs, remainingMs } from "./validity.ts";

/** What one node has said of this token. */
export interface Hold {
  /** Its latest word that it keeps the lease. */
  bound?: { readonly sentAt: Stamp; readonly remainingMs: number; readonly leaseMs: number };
  /** It said that it does not; for a token that is final. */
  gone?: "expired" | "stolen";
  /** Some acquire of this token was sent there and never definitely answered, so a copy may still land. */
  uncertain: boolean;
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

/** What a round of extends came to. */
export interface ExtendRound {
  readonly outcome: "extended" | "lost" | "unknown";
  readonly answers: readonly Answer<ExtendReply>[];
  readonly reports: readonly NodeReport[];
  readonly requests: number;
  readonly durationMs: number;
}

/** A lease from the inside. Loss is terminal, and so is the first call of `release()`. */
export class Holding {
  readonly context: LockContext;
  readonly grant: Grant;
  /** The longest lease asked for so far. */
  longestMs: number;
  readonly #controller = new AbortController();
  readonly #onOver = new Set<() => void>();
  #over: LockError | undefined;
  #cancelDeadline: () => void = () => {};

  constructor(context: LockContext, grant: Grant) {
    this.context = context;
    this.grant = grant;
    this.longestMs = grant.leaseMs;
  }

  /** Aborts with the "lost" error at the deadline or on loss, or with a caller's reason; never after `end()`. */
  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  /** Why the lease is over; undefined while it is held. */
  get over(): LockError | undefined {
    this.remainingMs();
    return this.#over;
  }

  /**
   * Whole ms in which a write may still be started, 0 when over. Looks at the clocks, so it is right before any timer
   * has run, as after a freeze; the look that finds the deadline passed loses the lease.
   */
  remainingMs(): number {
    if (this.#over !== undefined) return 0;
    const left = this.usableMs();
    if (left < 1) this.lose("expired");
    return Math.max(0, Math.floor(left));
  }

  /** What is left by both clocks, without a look at whether the lease is over; may be negative. */
  usableMs(): number {
    const { env, quorum, driftFactor } = this.context;
    const now = env.clock.now();
    const perNode = this.grant.holds.map(({ bound, gone }) =>
      gone ? Number.NEGATIVE_INFINITY : boundMs(bound, now, driftFactor),
    );
    return quorumRemainingMs(perNode, quorum) - this.grant.flightMs;
  }

  /** Starts the watch over the deadline, which keeps no process alive. */
  watch(): void {
    this.#cancelDeadline();
    const { clock } = this.context.env;
    this.#cancelDeadline = clock.after(Math.max(1, this.usableMs()), false, () => {
      if (this.remainingMs() > 0) this.watch();
    });
  }

  /** Calls back once when the lease is over, whatever ends it. */
  onOver(callback: () => void): void {
    this.#onOver.add(callback);
  }

  /** The lease is lost, for ever: tells the holder. */
  lose(by: LostBy): void {
    if (this.#over !== undefined) return;
    const { name, fence } = this.grant;
    this.#finish(lostError(name, by));
    this.#controller.abort(this.#over);
    notify(this.context.observe, { type: "lost", by, name, fence, durationMs: 0, requests: 0, nodes: [] });
  }

  /** The holder lets go: from here the signal never aborts. */
  end(): void {
    if (this.#over !== undefined) return;
    this.#finish(lostError(this.grant.name, "released"));
  }

  /** A caller's abort reaches the task; the lease itself stays as it is. */
  abort(reason: unknown): void {
    if (this.#over === undefined) this.#controller.abort(reason);
  }

  /**
   * Asks every node once for a lease of `leaseMs` from now. A node that answers "extended" moves its own bound, one that
   * does not answer keeps it, and one that says "not yours" is gone for this token. Needs a quorum of extensions; fewer
   * are no loss as long as the old bounds last. Lost is: the deadline has passed, or more than N - q nodes are gone.
   */
  async extend(leaseMs: number, keepsAlive: boolean): Promise<ExtendRound> {
    const { env, nodes, quorum, driftFactor, floorMs } = this.context;
    const { keys, token, holds } = this.grant;
    this.longestMs = Math.max(this.longestMs, leaseMs);
    const startedAt = env.clock.now();
    const answers: Answer<ExtendReply>[] = [];
    let extended = 0;
    const { decided } = askEach(
      env,
      nodes,
      ({ trip }) => ({
        script: extendScript,
        keys: [keys.lock],
        args: [token, leaseMs],
        timeoutMs: nodeTimeoutMs(trip, leaseMs, floorMs),
        keepsAlive,
      }),
      (answer, index) => {
        answers.push(answer);
        const hold = holds[index];
        if (answer.kind === "reply" && hold !== undefined) {
          if (answer.reply.type !== "extended") hold.gone = answer.reply.type === "foreign" ? "stolen" : "expired";
          else if (!hold.gone) {
            extended += 1;
            const bound = { sentAt: answer.sentAt, remainingMs: answer.reply.remainingMs, leaseMs };
            const now = env.clock.now();
            if (boundMs(bound, now, driftFactor) > boundMs(hold.bound, now, driftFactor)) hold.bound = bound;
          }
        }
        return extended >= quorum || this.#tooManyGone();
      },
    );
    await decided;
    if (this.#tooManyGone()) this.lose(holds.some(({ gone }) => gone === "stolen") ? "stolen" : "expired");
    const lost = this.remainingMs() === 0;
    if (!lost) this.watch();
    return {
      outcome: lost ? "lost" : extended >= quorum ? "extended" : "unknown",
      answers,
      reports: answers.map((answer) => reportOf(answer, ({ type }) => type)),
      requests: answers.reduce((sum, { requests }) => sum + requests, 0),
      durationMs: env.clock.now().monotonic - startedAt.monotonic,
    };
  }

  /** The error of a round that came to nothing definite. */
  unavailable({ answers, reports }: ExtendRound): LockError {
    return tooFewAnswers("extend the lease on", this.grant.name, answers, reports);
  }

  #tooManyGone(): boolean {
    const { nodes, quorum } = this.context;
    return this.grant.holds.filter(({ gone }) => gone).length > nodes.length - quorum;
  }

  #finish(over: LockError): void {
    this.#over = over;
    this.#cancelDeadline();
    for (const callback of this.#onOver) callback();
  }
}

function boundMs(bound: Hold["bound"], now: Stamp, driftFactor: number): number {
  if (bound === undefined) return Number.NEGATIVE_INFINITY;
  return remainingMs({ ...bound, elapsedMs: elapsedMs(bound.sentAt, now) }, driftFactor);
}
