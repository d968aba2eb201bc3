/**
 * The settings of one cache: what every step of a read is handed.
 *
 * @module
 */
import type { Environment } from "../environment.ts";
import { failure, type LockError } from "../errors.ts";
import type { Observer } from "../events.ts";
import { type Answer, ask, type Node, reportOf, tooFewAnswers } from "../node.ts";
import type { Script, Verdict } from "../script.ts";
import type { Codec } from "./codec.ts";

/** The settings of one cache, and the Redis it stands on. */
export interface CacheContext {
  readonly env: Environment;
  readonly node: Node;
  readonly codec: Codec;
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
 * Asks about an entry; once more, with the same token, when the outcome is unknown and `again` allows it. A second copy
 * of any request here does nothing that the first one did not.
 */
export async function askEntry<Result extends Verdict>(
  { env, node }: CacheContext,
  { key }: Place,
  script: Script<Result>,
  args: readonly (string | number)[],
  again = true,
): Promise<Answer<Result>> {
  const question = { script, keys: [key], args, timeoutMs: requestTimeoutMs };
  const first = await ask(env, node, question);
  if (first.kind !== "unknown" || !again || first.retryAfterMs !== undefined) return first;
  const second = await ask(env, node, question);
  return { ...second, requests: first.requests + second.requests };
}

/** The error of a request without a definite answer: "config" for what no other try mends, else "unavailable". */
export function noAnswer(action: string, { name }: Place, answer: Answer<Verdict>): LockError {
  if (answer.kind !== "no-vote" || answer.code !== "WRONGTYPE") return tooFewAnswers(action, name, [answer]);
  return failure("config", action, name, "its key holds another type: use another prefix", {
    nodes: [reportOf(answer)],
  });
}
