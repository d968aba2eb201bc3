/**
 * One flight: the readers of one entry in this process who wait for the same answer, and the questions asked for them.
 *
 * @module
 */
import { sleep } from "../clock.ts";
import type { Signal } from "../command.ts";
import { failure } from "../errors.ts";
import { type CacheEvent, notify } from "../events.ts";
import { type Answer, reportOf } from "../node.ts";
import { newToken } from "../random.ts";
import type { Script, Verdict } from "../script.ts";
import type { ElectReply } from "../scripts/elect.ts";
import { askEntry, type CacheContext } from "./context.ts";
import type { Reader, Seat, Told } from "./reader.ts";

/** What a question came to, and its place among those that the flight has asked. */
export interface Asked<Result> {
  readonly answer: Answer<Result>;
  readonly question: number;
}

/** An event of a read, without what every one of them says. */
type ReadEvent<Event = CacheEvent> = Event extends CacheEvent
  ? Omit<Event, "name" | "durationMs" | "requests" | "nodes">
  : never;

/**
 * Readers sit down, are asked for as one, and leave when they have been told something.
 *
 * A reader may take an outcome only if it sat down before the question was asked that the outcome rests on. Another
 * process may have invalidated the entry while the reply was under way, and a later reader must not see the past.
 */
export class Flight implements Seat {
  readonly context: CacheContext;
  /** One for all elections of this flight: a second copy of any of them finds the first. */
  readonly token: string;
  /** Later readers do not join this flight. */
  readonly detach: () => void;
  /** What is under way goes on although nobody waits for it. */
  isKept = false;
  readonly #readers = new Set<Reader>();
  readonly #deserted = new AbortController();
  #questions = 0;
  #asking = false;
  #builder: Reader | undefined;
  #retryAfterMs: number | undefined;

  constructor(context: CacheContext, detach: () => void) {
    this.context = context;
    this.token = newToken(context.env.random);
    this.detach = detach;
  }

  /** Aborts when the last reader has left unanswered. Nobody may sit down after that. */
  get deserted(): Signal {
    return this.#deserted.signal;
  }

  /** Those who wait, in the order in which they came; with a question those who may take its outcome. */
  readers(question: number = Infinity): readonly Reader[] {
    return [...this.#readers].filter(({ satDownAt }) => satDownAt < question);
  }

  sitDown(reader: Reader): void {
    reader.seat = this;
    reader.satDownAt = this.#questions;
    this.#readers.add(reader);
  }

  tell(readers: readonly Reader[], told: Told): void {
    for (const reader of readers) {
      this.#readers.delete(reader);
      reader.tell(told);
    }
  }

  /**
   * Gives a value that is no longer fresh to those of the readers who take it: while another builds, or where a build
   * fails or is slow.
   *
   * @returns whether anybody took it
   */
  serveOld(
    { answer, question }: Asked<ElectReply>,
    isFailing: boolean,
    readers: readonly Reader[] = this.readers(),
  ): boolean {
    if (answer.kind !== "reply" || answer.reply.payload === undefined) return false;
    const { age, payload, fence } = answer.reply;
    const takers = readers.filter(
      ({ satDownAt, wanted: { staleMs, errorMs } }) =>
        satDownAt < question && ((age === "stale" && staleMs > 0) || (isFailing && errorMs > 0)),
    );
    for (const reader of takers) this.notify({ type: "stale", fence }, reader, answer);
    this.tell(takers, { payload, status: "stale", fence, stored: true });
    return takers.length > 0;
  }

  /** Tells a reader what its own caller or clock has decided, and gives up when it was the last. */
  dismiss(reader: Reader, error: unknown): void {
    this.tell([reader], { error });
    if (this.#readers.size > 0 || this.isKept) return;
    this.detach();
    this.#deserted.abort(new DOMException("Nobody waits for this any more", "AbortError"));
  }

  /** Dismisses those whose `waitMs` is over, but the builder, and not while a request is under way. */
  expire(): void {
    if (this.#asking) return;
    for (const reader of this.readers()) {
      if (reader.isOverdue && reader !== this.#builder) this.dismiss(reader, overdue(reader, this.#retryAfterMs));
    }
  }

  /** Asks on behalf of a reader, who pays for the requests. */
  async ask<Result extends Verdict>(
    reader: Reader,
    script: Script<Result>,
    args: readonly (string | number)[],
    again = true,
  ): Promise<Asked<Result>> {
    this.#questions += 1;
    const question = this.#questions;
    this.#asking = true;
    const answer = await askEntry(this.context, reader.wanted, script, args, again);
    this.#asking = false;
    reader.requests += answer.requests;
    return { answer, question };
  }

  /** From here on the others wait for this build. It is a question as well: to what the cache stands in front of. */
  startBuild(builder: Reader): number {
    this.#builder = builder;
    this.#questions += 1;
    this.#retryAfterMs = undefined;
    this.expire();
    return this.#questions;
  }

  /** Waits for a build elsewhere that may be over in `retryAfterMs`, as long as anybody here waits for it. */
  async pause(ms: number, retryAfterMs: number): Promise<void> {
    this.#retryAfterMs = retryAfterMs;
    this.expire();
    await sleep(this.context.env.clock, ms, this.deserted).catch(() => {});
  }

  /** Tells the observer what happened to a reader. */
  notify(event: ReadEvent, { wanted, startedAt, requests }: Reader, answer: Answer<Verdict>): void {
    const { env, observe } = this.context;
    const durationMs = Math.max(0, env.clock.now().monotonic - startedAt.monotonic);
    notify(observe, { ...event, name: wanted.name, durationMs, requests, nodes: [reportOf(answer)] });
  }
}

function overdue({ wanted: { name, waitMs } }: Reader, retryAfterMs: number | undefined): unknown {
  const contended = failure("contended", "get", name, "another builds it", { retryAfterMs });
  if (waitMs === 0) return contended;
  const reason = `another built it for all of waitMs: current value is ${waitMs}`;
  return failure("timeout", "get", name, reason, { retryAfterMs, cause: contended });
}
