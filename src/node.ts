/**
 * Asks one Redis, and says which of the three kinds of answer came back: a definite reply, no vote (Redis answered with
 * an error), or unknown (everything else). Only a definite reply is ever success or "someone else holds it".
 *
 * @module
 */
import { msSince, type Stamp } from "./clock.ts";
import {
  type Command,
  type CommandClient,
  isReplyError,
  onAbort,
  type Reply,
  ReplyError,
  type Signal,
  untilAborted,
} from "./command.ts";
import type { Environment } from "./environment.ts";
import { failure, isLockError, type LockError, type NodeReport, scrub } from "./errors.ts";
import { runScript, type ScriptCall, type Verdict } from "./script.ts";
import { checkClient, invalid } from "./validate.ts";
import { type RoundTrip, sampled, timedOut, unknownRoundTrip } from "./validity.ts";

/** A client that takes part, and what has been learnt of its round trip. Plain data: requests may share it anywhere. */
export interface Node {
  readonly client: CommandClient;
  readonly label: string;
  trip: RoundTrip;
}

/** One question to a node. */
export interface Question<Result> extends ScriptCall<Result> {
  /** False for work that must not keep a process alive, such as a renewal. */
  readonly keepsAlive?: boolean;
  /** Gives up early; the answer is then "unknown". */
  readonly signal?: Signal | undefined;
}

/** One of the three kinds of answer. */
export type Said<Result> = {
  /** How long the server asked not to be called, where it did. */
  readonly retryAfterMs?: number | undefined;
} & (
  | { readonly kind: "reply"; readonly reply: Result; readonly reason?: undefined; readonly final?: undefined }
  | {
      readonly kind: "no-vote";
      readonly reply?: undefined;
      readonly reason: string;
      /** Redis' own code, such as "OOM". */
      readonly code: string;
      /** The code to fail with where neither another try nor a roll-back would be let through: credentials, quotas, or a server unfit. */
      readonly final: "config" | "unavailable" | undefined;
    }
  | { readonly kind: "unknown"; readonly reply?: undefined; readonly reason: string; readonly final?: undefined }
);

/** What came back of one question. */
export type Answer<Result> = Said<Result> & {
  readonly from: Node;
  /** Just before the request was sent, tries hidden below the client included: what every bound is counted from. */
  readonly sentAt: Stamp;
  readonly ms: number;
  /** Commands sent. */
  readonly requests: number;
};

/** The node of a client; its place in the list, from 1, names a client without a label. */
export function createNode(client: CommandClient, place: number): Node {
  return { client, label: client.label ?? `node ${place}`, trip: unknownRoundTrip };
}

/** The nodes of a diagnosis, which takes one client as well. @throws LockError "config" for none, or what is no client */
export function createNodes(clients: CommandClient | readonly CommandClient[]): Node[] {
  const list = [clients].flat();
  if (list.length === 0) throw invalid("clients", list.length, "one client or more");
  return list.map((client, index) => createNode(checkClient(client), index + 1));
}

/**
 * Asks once; no answer within `timeoutMs` is "unknown". Never rejects for what a Redis or a network does; rejects with the
 * client's own "config" error, such as a malformed URL. The client's promise is left alone once the time is up: whatever
 * it gives then is not an answer.
 */
export async function ask<Result>(
  { clock }: Environment,
  node: Node,
  question: Question<Result>,
  timeoutMs: number,
): Promise<Answer<Result>> {
  const { script, keepsAlive = true, signal } = question;
  const sentAt = clock.now();
  const timeUp = new AbortController();
  let requests = 0;
  const send = (command: Command): Promise<Reply> => {
    timeUp.signal.throwIfAborted(); // it may have been while a digest was made, or before a NOSCRIPT came
    requests += 1;
    return node.client.execute(command, { signal: timeUp.signal });
  };
  const giveUp = (reason: string): void => timeUp.abort(new Error(reason));
  const cancelTimer = clock.after(timeoutMs, keepsAlive, () => giveUp("timeout"));
  const stopListening = onAbort(signal, () => giveUp("aborted"));

  let said: Said<Result>;
  try {
    const reply = script.decode(await untilAborted(runScript(node.client, question, send), timeUp.signal));
    if (!reply) throw new Error("odd reply");
    said = { kind: "reply", reply };
  } catch (error) {
    if (isLockError(error, "config")) throw error;
    said = classify(error, question);
  } finally {
    cancelTimer();
    stopListening();
  }
  return { ...said, from: node, sentAt, ms: msSince(clock, sentAt), requests };
}

/** Learns from an answer how long its node takes: for those whose time-outs adapt. */
export function learn({ from, kind, ms }: Answer<unknown>, timeoutMs: number): void {
  if (kind !== "unknown") from.trip = sampled(from.trip, ms);
  else if (ms > timeoutMs - 1) from.trip = timedOut(from.trip); // timers may be early by a part of a ms
}

/** What a node contributed, for errors and events. */
export function reportOf({ from, kind, reply, reason, ms }: Answer<Verdict>): NodeReport {
  return { label: from.label, outcome: reply?.type ?? kind, ...(reason && { reason }), ms };
}

/**
 * The error of an operation with too few definite answers: "config" where credentials are what is wrong, else
 * "unavailable". Its cause says what Redis said; never the foreign error, which may hold the command.
 */
export function tooFewAnswers(action: string, name: string, answers: readonly Answer<Verdict>[]): LockError {
  const nodes = answers.map(reportOf);
  const said = nodes.map(({ label, outcome, reason }) => `${label}: ${reason || outcome}`).join("; ");
  const byRedis = answers.find((answer) => answer.kind === "no-vote");
  return failure(byRedis?.final ?? "unavailable", action, name, `too few definite answers: ${said}`, {
    nodes,
    cause: byRedis && new ReplyError(byRedis.reason, byRedis),
    retryAfterMs: answers.find(({ retryAfterMs }) => retryAfterMs)?.retryAfterMs,
  });
}

function classify(error: unknown, { args }: ScriptCall<unknown>): Said<never> {
  const { message = error, retryAfterMs: wait } = Object(error) as { message?: unknown; retryAfterMs?: unknown };
  const retryAfterMs = typeof wait === "number" && wait > 0 ? wait : undefined;
  // Whatever is long enough to be a token or a value stays out of messages, wherever a client may have put it.
  const secrets = args.map(String).filter((arg) => arg.length >= 16);
  const reason = scrub(message, secrets); // a client may reject with anything
  if (!isReplyError(error)) return { kind: "unknown", reason, retryAfterMs };
  const { code } = error;
  // Credentials, a key of a foreign type (WRONGTYPE), or a server that does not run these scripts.
  const unfit = /^(WRONG|NOAUTH|NOPERM)|unknown command|shebang|compiling|can't run/.test(code + reason);
  const final = unfit ? "config" : /\bmax.*limit exceeded/i.test(reason) ? "unavailable" : undefined;
  return { kind: "no-vote", reason, retryAfterMs, code, final };
}
