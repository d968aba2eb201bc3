/**
 * One flight: the readers of one entry in this process who wait for the same answer, and the questions asked for them.
 *
 * @module
 */
import type { Signal } from "../command.ts";
import { failure } from "../errors.ts";
import type { Answer } from "../node.ts";
import { newToken } from "../random.ts";
import type { Script } from "../script.ts";
import { electScript } from "../scripts/elect.ts";
import type { EntryReply } from "../scripts/entry-script.ts";
import { tendScript } from "../scripts/tend.ts";
import { askEntry, type CacheContext, notifyOf } from "./context.ts";
import type { Reader, Seat, Told } from "./reader.ts";

/** What a question came to. */
export type Asked<Result extends EntryReply = EntryReply> = Answer<Result> & {
  /** Those who may take its outcome: who sat down before it was asked, and have not been told anything since. */
  readers(): readonly Reader[];
};

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
  /** Aborts when the last reader has left unanswered, or the build is of no use any more. Nobody may sit down after that. */
  readonly signal: Signal;
  /** A build goes on although nobody waits for it. */
  isKept?: boolean;
  /** How old the value was that stood when Redis was asked last, as in its reply. */
  ageMs?: number | undefined;
  /** It has waited for a build. */
  hasWaited?: boolean | undefined;
  /** Later readers do not join this flight. */
  detach(): void;
  abort(reason?: unknown): void;
  /** Those who wait, in the order in which they came. */
  readonly readers: Set<Reader>;
  tell(readers: Iterable<Reader>, told: Told): void;
  /** Asks on behalf of a reader, who pays for the requests. */
  ask<Result extends EntryReply>(
    reader: Reader,
    script: Script<Result>,
    args: readonly (string | number)[],
  ): Promise<Asked<Result>>;
  /** From here on all wait for a build: that of one of them, or one elsewhere that is over in `leftMs` at the latest. */
  waitFor(builder: Reader | undefined, leftMs?: number): void;
}

/** A flight that nobody has joined yet. `detach` keeps later readers from joining it. */
export function createFlight(context: CacheContext, detach: () => void): Flight {
  const { env } = context;
  const readers = new Set<Reader>();
  const stop = new AbortController();
  let asking: boolean | undefined;
  let rescued = new Set<Reader>();
  let builder: Reader | undefined;
  let retryAfterMs: number | undefined;

  const flight: Flight = {
    context,
    token: newToken(env.random),
    signal: stop.signal,
    detach,
    abort(reason) {
      detach();
      stop.abort(reason);
    },
    readers,
    tell(those, told) {
      for (const reader of those) {
        readers.delete(reader);
        reader.tell(told);
      }
    },
    leave(reader) {
      readers.delete(reader as Reader);
      if (readers.size === 0 && !flight.isKept) flight.abort();
    },
    expire() {
      if (asking) return;
      for (const reader of readers) {
        if (reader.isOverdue && reader !== builder) flight.tell([reader], overdue(reader, retryAfterMs));
      }
      flight.leave();
    },
    async rescue(reader) {
      if (rescued.has(reader)) return; // by the look of another, which came after it
      rescued = new Set(readers);
      serve(flight, await flight.ask(reader, electScript, ["", 0, context.prefix, 0]), true);
      flight.leave();
    },
    async ask(reader, script, args) {
      const asked = [...readers];
      asking = script !== tendScript; // which brings nobody a value
      const answer = await askEntry(context, reader, script, args);
      flight.ageMs = answer.reply?.ageMs;
      asking = false;
      return { ...answer, readers: () => asked.filter((one) => readers.has(one)) };
    },
    waitFor(own, leftMs) {
      builder = own;
      retryAfterMs = leftMs;
      flight.hasWaited = true;
      flight.expire();
    },
  };
  return flight;
}

/**
 * Gives the value that an answer brought to those who take it: if it is fresh to all; an old one to those who take one
 * of its age while another builds, or where a build fails or is slow. The reader that is excepted gets nothing.
 */
export function serve(flight: Flight, asked: Asked, isFailing?: boolean, except?: Reader): void {
  if (!asked.reply?.payload) return;
  const { payload, fence, ageMs } = asked.reply;
  for (const reader of asked.readers()) {
    if (reader === except || ageMs >= Math.max(reader.staleMs, isFailing ? reader.errorMs : 0)) continue;
    const type = ageMs < 0 ? "hit" : "stale";
    notifyOf(flight.context, { type, fence }, reader, asked);
    flight.tell([reader], { payload, status: ageMs < 0 && flight.hasWaited ? "waited" : type, fence, stored: true });
  }
}

/** Another builds it for longer than this reader waits. */
function overdue({ name, waitMs }: Reader, retryAfterMs: number | undefined): Told {
  const cause = failure("contended", "get", name, "another builds it", { retryAfterMs });
  if (waitMs === 0) return { error: cause };
  return {
    error: failure("timeout", "get", name, `another builds it for longer than ${waitMs} ms`, { ...cause, cause }),
  };
}
