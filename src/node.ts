/**
 * Asks one Redis, and says which of the three kinds of answer came back: a definite reply, no vote (Redis answered with
 * an error), or unknown (everything else). Only a definite reply is ever success or "someone else holds it".
 *
 * @module
 */
import type { Stamp } from "./clock.ts";
import { type Command, type CommandClient, isReplyError, type Reply, ReplyError, type Signal } from "./command.ts";
import type { Environment } from "./environment.ts";
import { isLockError, LockError, type NodeReport, scrub } from "./errors.ts";
import { runScript, type ScriptCall } from "./script.ts";
import { type RoundTrip, sampled, timedOut, unknownRoundTrip } from "./validity.ts";

/** A client that takes part, and what has been learnt of its round trip. Plain data: requests may share it anywhere. */
export interface Node {
  readonly client: CommandClient;
  readonly label: string;
  trip: RoundTrip;
}

/** One question to a node. */
export interface Question<Result> extends ScriptCall<Result> {
  /** No answer within this is "unknown". */
  readonly timeoutMs: number;
  /** False for work that must not keep a process alive, such as a renewal. */
  readonly keepsAlive?: boolean;
  /** Gives up early; the answer is then "unknown". */
  readonly signal?: Signal | undefined;
}

/** What an error that Redis answered with is about. Neither credentials nor a quota are mended by asking again. */
export type Refused = "credentials" | "quota" | "other";

/** What came back of one question. */
export type Answer<Result> = {
  readonly label: string;
  /** Just before the request was sent, tries hidden below the client included: what every bound is counted from. */
  readonly sentAt: Stamp;
  readonly ms: number;
  /** Commands sent. */
  readonly requests: number;
} & (
  | { readonly kind: "reply"; readonly reply: Result }
  | NoVote
  | { readonly kind: "unknown"; readonly reason: string; readonly retryAfterMs?: number | undefined }
);

interface NoVote {
  readonly kind: "no-vote";
  readonly refused: Refused;
  /** Redis' own code, such as "OOM". */
  readonly code: string;
  readonly reason: string;
  readonly retryAfterMs: number | undefined;
}

/** The node of a client; its place in the list, from 1, names a client without a label. */
export function createNode(client: CommandClient, place: number): Node {
  return { client, label: client.label ?? `node ${place}`, trip: unknownRoundTrip };
}

/**
 * Asks once. Never rejects for what a Redis or a network does; rejects with the client's own "config" error, such as a
 * malformed URL. The client's promise is left alone once the time is up: whatever it gives then is not an answer.
 */
export function ask<Result>(env: Environment, node: Node, question: Question<Result>): Promise<Answer<Result>> {
  const { clock } = env;
  const { timeoutMs, keepsAlive = true, signal } = question;
  const sentAt = clock.now();
  const timeUp = new AbortController();
  let requests = 0;
  const sinceSent = (): number => Math.max(0, clock.now().monotonic - sentAt.monotonic);
  const { label } = node;
  const send = (command: Command): Promise<Reply> => {
    requests += 1;
    return node.client.execute(command, { signal: timeUp.signal });
  };

  return new Promise((resolve, reject) => {
    let open = true;
    const close = (): boolean => {
      if (!open) return false;
      open = false;
      cancelTimer();
      signal?.removeEventListener("abort", onAbort);
      return true;
    };
    const giveUp = (reason: string): void => {
      if (!close()) return;
      resolve({ kind: "unknown", reason, label, sentAt, ms: sinceSent(), requests });
      timeUp.abort(new DOMException(`No answer from ${label} in time`, "TimeoutError"));
    };
    const onAbort = (): void => giveUp("aborted");
    const cancelTimer = clock.after(timeoutMs, keepsAlive, () => {
      node.trip = timedOut(node.trip);
      giveUp("timeout");
    });
    signal?.addEventListener("abort", onAbort);
    if (signal?.aborted) return onAbort();

    runScript(node.client, question, send).then(
      (raw) => {
        const ms = sinceSent();
        // Two requests say nothing about one round trip. An answer that came too late still does.
        if (requests === 1) node.trip = sampled(node.trip, ms);
        if (!close()) return;
        const reply = question.script.decode(raw);
        if (reply !== undefined) resolve({ kind: "reply", reply, label, sentAt, ms, requests });
        else resolve({ kind: "unknown", reason: "a reply of an unknown shape", label, sentAt, ms, requests });
      },
      (error: unknown) => {
        if (!close()) return;
        if (isLockError(error, "config")) reject(error);
        else resolve({ ...classify(error, secretsOf(question)), label, sentAt, ms: sinceSent(), requests });
      },
    );
  });
}

/**
 * Asks every node at once. Resolves as soon as `onAnswer` returns true, or when all have answered; answers after that
 * still reach `onAnswer`. `late` settles when none is outstanding any more.
 */
export function askEach<Result>(
  env: Environment,
  nodes: readonly Node[],
  question: (node: Node) => Question<Result>,
  onAnswer: (answer: Answer<Result>, index: number) => boolean,
): { readonly decided: Promise<void>; readonly late: Promise<unknown> } {
  let decide: () => void = () => {};
  const decidedEarly = new Promise<void>((resolve) => {
    decide = resolve;
  });
  const asked = nodes.map(async (node, index) => {
    const answer = await ask(env, node, question(node));
    if (onAnswer(answer, index)) decide();
  });
  const late = Promise.all(asked);
  return { decided: Promise.race([decidedEarly, late.then(() => {})]), late: late.catch(() => {}) };
}

/** What a node contributed, for errors and events. */
export function reportOf<Result>(answer: Answer<Result>, describe: (reply: Result) => string): NodeReport {
  const { label, kind, ms } = answer;
  if (kind === "reply") return { label, outcome: describe(answer.reply), ms };
  return { label, outcome: kind, reason: answer.reason, ms };
}

/**
 * The error of an operation that got too few definite answers: "config" where credentials are what is wrong, else
 * "unavailable". Its cause says what Redis or the network said; never the foreign error, which may hold the command.
 */
export function tooFewAnswers(
  action: string,
  name: string,
  answers: readonly Answer<unknown>[],
  nodes: readonly NodeReport[],
): LockError {
  const failures = answers.filter((answer) => answer.kind !== "reply");
  const denied = failures.some((answer) => answer.kind === "no-vote" && answer.refused === "credentials");
  const said = nodes
    .filter(({ reason }) => reason !== undefined)
    .map(({ label, reason }) => `${label} said: ${reason}`);
  const retryAfterMs = Math.max(0, ...failures.map((answer) => answer.retryAfterMs ?? 0));
  const byRedis = failures.find((answer) => answer.kind === "no-vote");
  const cause = byRedis ? new ReplyError(byRedis.reason, { code: byRedis.code }) : new Error(said.join("; "));
  return new LockError(
    denied ? "config" : "unavailable",
    `Cannot ${action} "${name}" as ${denied ? "the credentials are refused" : "too few nodes gave a definite answer"}: ${said.join("; ")}`,
    { lockName: name, nodes, cause, retryAfterMs: retryAfterMs || undefined },
  );
}

function classify(
  error: unknown,
  secrets: readonly string[],
): NoVote | { kind: "unknown"; reason: string; retryAfterMs: number | undefined } {
  const message = error instanceof Error ? error.message : String(error);
  const reason = scrub(message, secrets) || "no reason given";
  const wait = (error as { retryAfterMs?: unknown } | null)?.retryAfterMs;
  const retryAfterMs = typeof wait === "number" && wait > 0 ? wait : undefined;
  if (!isReplyError(error)) return { kind: "unknown", reason, retryAfterMs };
  const refused = /^(WRONGPASS|NOAUTH|NOPERM)$/.test(error.code)
    ? "credentials"
    : /\bmax\b.*\bexceeded\b/i.test(message)
      ? "quota"
      : "other";
  return { kind: "no-vote", refused, code: error.code, reason, retryAfterMs };
}

// Whatever is long enough to be a token or a value stays out of messages, wherever a client may have put it.
function secretsOf({ args }: ScriptCall<unknown>): string[] {
  return args.filter((arg): arg is string => typeof arg === "string" && arg.length >= 16);
}
