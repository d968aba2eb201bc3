/**
 * Runs one build: keeps its election alive, keeps its caller from waiting too long, and makes a payload of its value.
 *
 * @module
 */
import { failure } from "../errors.ts";
import type { ElectReply } from "../scripts/elect.ts";
import { renewScript } from "../scripts/renew.ts";
import { fromPayload, toPayload } from "./codec.ts";
import { askEntry } from "./context.ts";
import type { Asked, Flight } from "./flight.ts";
import type { Reader } from "./reader.ts";

/** One build for a flight. */
export interface Attempt {
  readonly flight: Flight;
  readonly builder: Reader;
  /** That the election was won and what stood there, or that Redis gave no definite answer. */
  readonly elected: Asked<ElectReply>;
  /** 0 where Redis gave no definite answer. */
  readonly fence: number;
  /** Token and fence: only both together may store, fail or renew. */
  readonly election: readonly [token: string, fence: string];
}

/** What came of a build. */
export type Built =
  | { readonly type: "payload"; readonly payload: string }
  | { readonly type: "failed"; readonly error: unknown }
  /** It gave what cannot be stored. */
  | { readonly type: "refused"; readonly error: unknown }
  /** Nobody waits for it any more, or it has stopped as it had been overtaken. */
  | { readonly type: "deserted" | "lost" };

/**
 * Runs the build of an attempt. Never rejects.
 *
 * 1. When another was elected or the entry invalidated, its signal aborts. Whether it stops is up to it: its value would
 *    be refused, but its own caller may have it.
 * 2. At `maxHoldMs` it has failed, so that a build that hangs does not block the others for ever.
 * 3. At `softTimeoutMs` its caller gets the old value, if there is one that it takes, and at `hardTimeoutMs` an error;
 *    the build goes on.
 */
export async function runBuild(attempt: Attempt): Promise<Built> {
  const { flight, builder, elected, fence } = attempt;
  const { codec, env } = flight.context;
  const { name, build, waitUntil, staleMs, maxHoldMs, softTimeoutMs, hardTimeoutMs } = builder.wanted;
  const won = elected.answer.kind === "reply" ? elected.answer.reply : undefined;
  if (flight.deserted.aborted) return { type: "deserted" };

  let over: "deserted" | "lost" | undefined;
  const stop = new AbortController();
  const timers: (() => void)[] = [];
  const after = (ms: number, act: () => void): void => void timers.push(env.clock.after(ms, true, act));
  const quit = new Promise<never>((_, reject) => {
    const end = (reason: unknown): void => {
      stop.abort(reason);
      reject(reason);
    };
    flight.deserted.addEventListener("abort", () => {
      over = "deserted";
      end(flight.deserted.reason);
    });
    after(maxHoldMs, () => end(tooLong(name, "maxHoldMs", maxHoldMs)));
  });
  const serveOld = (): void => {
    flight.isKept ||= flight.serveOld(elected, true, [builder]);
  };
  if (waitUntil && won?.age === "stale" && staleMs > 0) serveOld();
  else if (softTimeoutMs !== undefined) after(softTimeoutMs, serveOld);
  if (hardTimeoutMs !== undefined) {
    after(hardTimeoutMs, () => {
      serveOld();
      flight.isKept = true;
      flight.tell([builder], { error: tooLong(name, "hardTimeoutMs", hardTimeoutMs) });
    });
  }
  if (fence > 0) {
    timers.push(
      keepElected(attempt, () => {
        over = "lost";
        stop.abort(failure("lost", "store", name, "another was elected, or it was invalidated"));
      }),
    );
  }

  let stale: unknown;
  try {
    if (won?.payload !== undefined) stale = fromPayload(codec, name, won.payload);
  } catch {
    // An old value that cannot be read is none.
  }
  let value: unknown;
  try {
    value = await Promise.race([(async () => build({ signal: stop.signal, fence, stale }))(), quit]);
  } catch (error) {
    return over === undefined ? { type: "failed", error } : { type: over };
  } finally {
    for (const cancel of timers) cancel();
  }
  try {
    return { type: "payload", payload: toPayload(codec, name, value) };
  } catch (error) {
    return { type: "refused", error };
  }
}

/**
 * Renews the election whenever 60 % of the lease have passed, so that a normal build costs no renewal; sooner after an
 * unknown outcome. Keeps no process alive. Returns what ends it.
 */
function keepElected({ flight, builder, election }: Attempt, onLost: () => void): () => void {
  const { clock } = flight.context.env;
  const { leaseMs } = builder.wanted;
  let ended = false;
  let cancel = (): void => {};
  const renew = async (): Promise<void> => {
    const answer = await askEntry(flight.context, builder.wanted, renewScript, [...election, leaseMs]);
    builder.requests += answer.requests;
    if (ended) return;
    if (answer.kind === "reply" && answer.reply.type === "over") onLost();
    else renewIn(answer.kind === "reply" ? 0.6 : 0.1);
  };
  const renewIn = (part: number): void => {
    cancel = clock.after(part * leaseMs, false, () => void renew().catch(() => {}));
  };
  renewIn(0.6);
  return () => {
    ended = true;
    cancel();
  };
}

function tooLong(name: string, option: string, ms: number): unknown {
  return failure("timeout", "get", name, `its build took longer than ${option}: current value is ${ms}`);
}
