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

/** The settings of one cache, and the Redis it stands on. */
export interface CacheContext {
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

/**
 * Asks about an entry, and once more, with the same token, when the outcome is unknown. A second copy of any request
 * here does nothing that the first one did not.
 */
export async function askEntry<Result extends Verdict>(
  { env, node }: CacheContext,
  { key }: Place,
  script: Script<Result>,
  args: readonly (string | number)[],
): Promise<Answer<Result>> {
  const question = { script, keys: [key], args };
  const first = await ask(env, node, question, requestTimeoutMs);
  // A key of another type: the prefix is not the cache's own.
  if (first.kind === "no-vote" && first.code === "WRONGTYPE") return { ...first, final: "config" };
  if (first.kind !== "unknown" || first.retryAfterMs !== undefined) return first;
  const second = await ask(env, node, question, requestTimeoutMs);
  return { ...second, requests: first.requests + second.requests };
}

/** As `askEntry`, for what has no answer but a definite one. @throws LockError "unavailable", "config" */
export async function demand<Result extends Verdict>(
  action: string,
  context: CacheContext,
  place: Place,
  script: Script<Result>,
  args: readonly (string | number)[],
): Promise<Extract<Answer<Result>, { kind: "reply" }>> {
  const answer = await askEntry(context, place, script, args);
  if (answer.kind !== "reply") throw tooFewAnswers(action, place.name, [answer]);
  return answer;
}

/** An event of a cache, without what every one of them says. */
export type EventBody<Any = CacheEvent> = Any extends CacheEvent
  ? Omit<Any, "name" | "durationMs" | "requests" | "nodes">
  : never;

/** Whose event it is, since when and at what cost. */
export interface Doing {
  readonly wanted: Pick<Place, "name">;
  readonly startedAt: Stamp;
  readonly requests: number;
}

/** Tells the observer. */
export function report(
  { env, observe }: CacheContext,
  event: EventBody,
  { wanted: { name }, startedAt, requests }: Doing,
  answer: Answer<Verdict>,
): void {
  notify(observe, { ...event, name, durationMs: msSince(env.clock, startedAt), requests, nodes: [reportOf(answer)] });
}
