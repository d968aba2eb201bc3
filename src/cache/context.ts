/**
 * The settings of one cache: what every step of a read is handed.
 *
 * @module
 */
import { msSince, type Stamp } from "../clock.ts";
import type { Environment } from "../environment.ts";
import { type CacheEvent, notify, type Observer } from "../events.ts";
import { type Answer, ask, type Node, reportOf, tooFewAnswers } from "../node.ts";
import type { Script, Verdict } from "../script.ts";
import type { Writing } from "./codec.ts";

/** The settings of one cache, and the Redis it stands on. */
export interface CacheContext extends Writing {
  readonly env: Environment;
  readonly node: Node;
  readonly observe: Observer | undefined;
}

/** No answer within this is unknown: a cold HTTPS call to another continent fits several times over. */
const requestTimeoutMs = 2_500;

/** The name as the caller wrote it, and the key of its entry. */
export interface Place {
  readonly name: string;
  readonly key: string;
}

/** A call: what it is about, since when, and what it has cost. */
export interface Doing extends Place {
  readonly startedAt: Stamp;
  requests: number;
}

/**
 * Asks about an entry, and once more, with the same token, when the outcome is unknown. A second copy of any request
 * here does nothing that the first one did not.
 */
export async function askEntry<Result extends Verdict>(
  context: CacheContext,
  doing: Doing,
  script: Script<Result>,
  args: readonly (string | number)[],
  isLast?: boolean,
): Promise<Answer<Result>> {
  const answer = await ask(context.env, context.node, { script, keys: [doing.key], args }, requestTimeoutMs);
  doing.requests += answer.requests;
  if (isLast || answer.kind !== "unknown" || answer.retryAfterMs) return answer;
  return askEntry(context, doing, script, args, true);
}

/** As `askEntry`, for what has no answer but a definite one. @throws LockError "unavailable", "config" */
export async function demand<Result extends Verdict>(
  action: string,
  context: CacheContext,
  doing: Doing,
  script: Script<Result>,
  args: readonly (string | number)[],
): Promise<Extract<Answer<Result>, { kind: "reply" }>> {
  const answer = await askEntry(context, doing, script, args);
  if (answer.kind !== "reply") throw tooFewAnswers(action, doing.name, [answer]);
  return answer;
}

/** An event of a cache, without what every one of them says. */
export type EventBody<Any = CacheEvent> = Any extends CacheEvent
  ? Omit<Any, "name" | "durationMs" | "requests" | "nodes">
  : never;

/** Tells the observer what came of a call. */
export function notifyOf(
  { env, observe }: CacheContext,
  event: EventBody,
  { name, startedAt, requests }: Doing,
  answer: Answer<Verdict>,
): void {
  notify(observe, { ...event, name, durationMs: msSince(env.clock, startedAt), requests, nodes: [reportOf(answer)] });
}
