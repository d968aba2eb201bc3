/**
 * inspectLock: who holds a lock, until when, and with which fence. Reads only.
 *
 * @module
 */
import type { CommandClient } from "./command.ts";
import { type Environment, systemEnvironment } from "./environment.ts";
import { lockKeys } from "./keys.ts";
import { type Answer, createNode, tooFewAnswers } from "./node.ts";
import { askAll } from "./round.ts";
import { type InspectReply, inspectScript } from "./scripts/inspect.ts";
import { checkClient, checkName, checkPrefix, invalid } from "./validate.ts";
import { majority } from "./validity.ts";

/** Settings of an inspection. */
export interface InspectOptions {
  /** @default {"lock"} */
  readonly prefix?: string | undefined;
}

/** What one Redis said of a lock. */
export interface NodeState {
  readonly label: string;
  /** "foreign" is a key of another type, which counts as held; "no-vote" and "unknown" say nothing of the lock. */
  readonly outcome: "held" | "free" | "foreign" | "no-vote" | "unknown";
  readonly token?: string | undefined;
  /** The highest fence it has granted; 0 where it knows none. */
  readonly fence?: number | undefined;
  /** What is left of the lease by the server's clock, in ms; absent where the key has no expiry. */
  readonly remainingMs?: number | undefined;
  /** Why it said nothing. */
  readonly reason?: string | undefined;
}

/** The state of a lock at some moment during the call. */
export interface LockState {
  /** Whether one token stands on a majority of the nodes, or a key of another type, which locks out as well. */
  readonly held: boolean;
  /** That token. It can release the lock, so keep it out of logs. */
  readonly token?: string | undefined;
  /** The highest fence that any node has granted; 0 where none is known. */
  readonly fence: number;
  /** What is left of the lease on a majority, in ms. */
  readonly remainingMs?: number | undefined;
  readonly nodes: readonly NodeState[];
}

/** How long to wait for each node: longer than a lock would, since a diagnosis is asked for when something is slow. */
const timeoutMs = 2_500;

/**
 * Reads the state of a lock. Never decide ownership by it: what it says may have ended on its way here.
 *
 * @throws LockError "unavailable" when fewer than a majority of the nodes answered, "config" for bad arguments
 *
 * @example
 * ```ts
 * import { createLock, inspectLock } from "leasehold";
 * import { memoryClient } from "leasehold/memory";
 *
 * const client = memoryClient();
 * const lease = await createLock(client).acquire("invoice:42");
 * const state = await inspectLock(client, "invoice:42");
 * console.log(state.held, state.fence === lease.fence);
 * ```
 */
export async function inspectLock(
  clients: CommandClient | readonly CommandClient[],
  name: string,
  { prefix = "lock" }: InspectOptions = {},
  environment?: Environment,
): Promise<LockState> {
  const list: readonly CommandClient[] = Array.isArray(clients) ? clients : [clients];
  if (list.length === 0) throw invalid("clients", list.length, "one client or more");
  const nodes = list.map((client, index) => createNode(checkClient(client), index + 1));
  const keys = lockKeys(checkPrefix(prefix), checkName("name", name));
  const context = { env: environment ?? systemEnvironment(), nodes, floorMs: timeoutMs, waitUntil: undefined };
  const question = { script: inspectScript, keys: [keys.lock, keys.fence], args: [], leaseMs: timeoutMs };
  const { answers } = await askAll(context, question);
  const quorum = majority(nodes.length);
  if (answers.filter(({ kind }) => kind === "reply").length < quorum) throw tooFewAnswers("inspect", name, answers);
  answers.sort((a, b) => nodes.indexOf(a.from) - nodes.indexOf(b.from));
  return stateOf(answers.map(nodeState), quorum);
}

function nodeState(answer: Answer<InspectReply>): NodeState {
  const { label } = answer.from;
  if (answer.kind !== "reply") return { label, outcome: answer.kind, reason: answer.reason };
  const { type, token, counter, remainingMs } = answer.reply;
  return {
    label,
    outcome: type,
    fence: counter,
    ...(token === undefined ? {} : { token }),
    ...(remainingMs === undefined || remainingMs < 0 ? {} : { remainingMs }),
  };
}

function stateOf(nodes: readonly NodeState[], quorum: number): LockState {
  const fence = Math.max(0, ...nodes.map((node) => node.fence ?? 0));
  for (const { token } of nodes) {
    const holders = nodes.filter((node) => node.outcome === "held" && node.token === token);
    if (token === undefined || holders.length < quorum) continue;
    const left = holders.map((node) => node.remainingMs ?? Number.POSITIVE_INFINITY).sort((a, b) => b - a)[quorum - 1];
    return { held: true, token, fence, ...(Number.isFinite(left) ? { remainingMs: left } : {}), nodes };
  }
  const foreign = nodes.filter((node) => node.outcome === "foreign").length;
  return { held: foreign >= quorum, fence, nodes };
}
