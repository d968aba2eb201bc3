/**
 * One flight: the readers of one entry in this process who wait for the same answer, and the questions asked for them.
 *
 * A reader may take an outcome only if it sat down before the question was asked that the outcome rests on. Another
 * process may have invalidated the entry while the reply was under way, and a later reader must not see the past.
 *
 * @module
 */
import { sleep } from "../clock.ts";
import type { Signal } from "../command.ts";
import type { Answer } from "../node.ts";
import { newToken } from "../random.ts";
import type { Script, Verdict } from "../script.ts";
import { askEntry, type CacheContext, type Place } from "./context.ts";
import { type Given, overdueError, type Reader, type Seat } from "./reader.ts";

/** What a question came to, and its place among those that the flight has asked. */
export interface Asked<Result> {
  readonly answer: Answer<Result>;
  readonly question: number;
}

export class Flight implements Seat {
  readonly context: CacheContext;
  readonly place: Place;
  /** One for all elections of this flight: a second copy of any of them finds the first. */
  readonly token: string;
  readonly #readers = new Set<Reader>();
  readonly #deserted = new AbortController();
  #questions = 0;
  #asking = false;
  #builder: Reader | undefined;
  #retryAfterMs: number | undefined;

  constructor(context: CacheContext, place: Place) {
    this.context = context;
    this.place = place;
    this.token = newToken(context.env.random);
  }

  /** Those who wait, in the order in which they came. */
  get readers(): readonly Reader[] {
    return [...this.#readers];
  }

  /** Those who may take the outcome of a question. */
  eligible(question: number): readonly Reader[] {
    return this.readers.filter(({ satDownAt }) => satDownAt < question);
  }

  /** Aborts when the last reader leaves without an answer. Nobody may sit down after that. */
  get deserted(): Signal {
    return this.#deserted.signal;
  }

  sitDown(reader: Reader): void {
    reader.seat = this;
    reader.satDownAt = this.#questions;
    this.#readers.add(reader);
  }

  leave(reader: Reader): void {
    if (!this.#readers.delete(reader) || this.#readers.size > 0) return;
    this.#deserted.abort(new DOMException("Nobody waits for this any more", "AbortError"));
  }

  overdue(reader: Reader): void {
    if (this.#asking || reader === this.#builder) return;
    reader.refuse(overdueError(reader.wanted, this.#retryAfterMs));
    this.leave(reader);
  }

  give(readers: readonly Reader[], given: Given): void {
    for (const reader of readers) {
      this.#readers.delete(reader);
      reader.give(given);
    }
  }

  refuse(readers: readonly Reader[], error: unknown): void {
    for (const reader of readers) {
      this.#readers.delete(reader);
      reader.refuse(error);
    }
  }

  /** Asks on behalf of a reader, who pays for the requests. Nobody's waiting ends while a request is under way. */
  async ask<Result extends Verdict>(
    reader: Reader,
    script: Script<Result>,
    args: readonly (string | number)[],
    again = true,
  ): Promise<Asked<Result>> {
    this.#questions += 1;
    const question = this.#questions;
    this.#asking = true;
    const answer = await askEntry(this.context, this.place, script, args, again);
    this.#asking = false;
    reader.requests += answer.requests;
    return { answer, question };
  }

  /** From here on the others wait for this reader's build. It is a question as well: to what the cache stands for. */
  startBuild(builder: Reader): number {
    this.#builder = builder;
    this.#questions += 1;
    this.#expireOverdue(undefined);
    return this.#questions;
  }

  /** Waits for a build elsewhere, as long as anybody here waits for it. */
  async pause(ms: number, retryAfterMs: number): Promise<void> {
    this.#expireOverdue(retryAfterMs);
    await sleep(this.context.env.clock, ms, this.deserted).catch(() => {});
  }

  #expireOverdue(retryAfterMs: number | undefined): void {
    this.#retryAfterMs = retryAfterMs;
    for (const reader of this.readers) if (reader.isOverdue) this.overdue(reader);
  }
}
