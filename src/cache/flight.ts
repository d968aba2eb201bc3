/**
 * One flight: the readers of one entry in this process who wait for the same answer, and the questions asked for them.
 *
 * @module
 */
import { sleep } from "../clock.ts";
import type { Signal } from "../command.ts";
import { failure } from "../errors.ts";
import type { Answer } from "../node.ts";
import { newToken } from "../random.ts";
import type { Script, Verdict } from "../script.ts";
import { askEntry, type CacheContext } from "./context.ts";
import type { Reader, Seat, Told } from "./reader.ts";

/** What a question came to. */
export interface Asked<Result> {
  readonly answer: Answer<Result>;
  /** The definite reply, if there was one. */
  readonly reply: Result | undefined;
  /** Its place among those that the flight has asked. */
  readonly question: number;
}

/**
 * Readers sit down, are asked for as one, and leave when they have been told something.
 *
 * A reader may take an outcome only if it sat down before the question was asked that the outcome rests on. Another
 * process may have invalidated the entry while the reply was under way, and a later reader must not see the past.
 */
export interface Flight extends Seat {
  readonly context: CacheContext;
  /** One for all elections of this flight: a second copy of any of them finds the first. */
  readonly token: string;
  /** Aborts when the last reader has left unanswered. Nobody may sit down after that. */
  readonly deserted: Signal;
  /** Later readers do not join this flight. */
  detach(): void;
  sitDown(reader: Reader): void;
  /** Those who wait, in the order in which they came; with a question those who may take its outcome. */
  readers(question?: number): readonly Reader[];
  tell(readers: readonly Reader[], told: Told): void;
  /** Asks on behalf of a reader, who pays for the requests. */
  ask<Result extends Verdict>(
    reader: Reader,
    script: Script<Result>,
    args: readonly (string | number)[],
  ): Promise<Asked<Result>>;
  /** From here on the others wait for this build. It is a question as well: to what the cache stands in front of. */
  startBuild(builder: Reader): number;
  /** Waits for a build elsewhere that is over in `leftMs` at the latest, as long as anybody here waits for it. */
  pause(ms: number, leftMs: number): Promise<void>;
}

export function createFlight(context: CacheContext, detach: () => void): Flight {
  const { env } = context;
  const seated = new Set<Reader>();
  const desertion = new AbortController();
  let questions = 0;
  let asking = false;
  let builder: Reader | undefined;
  let retryAfterMs: number | undefined;

  const flight: Flight = {
    context,
    token: newToken(env.random),
    deserted: desertion.signal,
    detach,
    sitDown(reader) {
      reader.seat = flight;
      reader.satDownAt = questions;
      seated.add(reader);
    },
    readers: (question = Infinity) => [...seated].filter(({ satDownAt }) => satDownAt < question),
    tell(readers, told) {
      for (const reader of readers) {
        seated.delete(reader);
        reader.tell(told);
      }
    },
    dismiss(reader, error) {
      flight.tell([reader], { error });
      if (seated.size > 0) return;
      detach();
      desertion.abort();
    },
    expire() {
      if (asking) return;
      for (const reader of seated) {
        if (reader.isOverdue && reader !== builder) flight.dismiss(reader, overdue(reader, retryAfterMs));
      }
    },
    async ask(reader, script, args) {
      questions += 1;
      const question = questions;
      asking = true;
      const answer = await askEntry(context, reader.wanted, script, args);
      asking = false;
      reader.requests += answer.requests;
      return { answer, reply: answer.kind === "reply" ? answer.reply : undefined, question };
    },
    startBuild(reader) {
      builder = reader;
      retryAfterMs = undefined;
      flight.expire();
      questions += 1;
      return questions;
    },
    pause(ms, leftMs) {
      retryAfterMs = leftMs;
      flight.expire();
      return sleep(env.clock, ms, flight.deserted).catch(() => {});
    },
  };
  return flight;
}

/** Another builds it for longer than this reader waits. */
function overdue({ wanted: { name, waitMs } }: Reader, retryAfterMs: number | undefined): unknown {
  const reason = "another builds it";
  const cause = failure("contended", "get", name, reason, { retryAfterMs });
  if (waitMs === 0) return cause;
  return failure("timeout", "get", name, `${reason} for longer than waitMs: current value is ${waitMs}`, {
    retryAfterMs,
    cause,
  });
}
