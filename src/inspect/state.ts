/**
 * What the nodes' answers about a lock come to: one verdict. Pure functions.
 *
 * @module
 */
import type { Answer } from "../node.ts";
import type { InspectReply } from "../scripts/inspect.ts";
import { quorumRemainingMs } from "../validity.ts";

/** What one Redis said of a lock. */
export interface NodeState {
  readonly label: string;
  /** "foreign" is a key of another type, which counts as held; "no-vote" and "unknown" say nothing of the lock. */
  readonly outcome: "held" | "free" | "foreign" | "no-vote" | "unknown";
  /** The beginning of the holder's token: the whole of it could release the lock. */
  readonly token?: string | undefined;
  /** The highest fence it has granted; 0 where it knows none. */
  readonly fence?: number | undefined;
  /** What is left of the lease by the server's clock, in ms; absent where the key has no expiry. */
  readonly remainingMs?: number | undefined;
  /** Why it said nothing: Redis' own error, that of the network, or "timeout". */
  readonly reason?: string | undefined;
  /** From the send to the answer, in ms; where none came, how long was waited. */
  readonly roundTripMs: number;
}

/**
 * What the nodes come to.
 *
 * - "free": nobody can hold it.
 * - "held": one token stands on a quorum, or a key of another type does, which locks out as well.
 * - "minority": one token stands on fewer nodes than a holder needs: what is left of a lease or of a try that failed.
 * - "split": two tokens stand. On a primary and the replica that took over from it, both may be believed in: exclusion is
 *   broken. On independent masters a try that fails leaves a second one for a moment.
 * - "unreachable": those that did not answer decide.
 */
export type LockVerdict = "free" | "held" | "minority" | "split" | "unreachable";

/** The state of a lock at some moment during the call. */
export interface LockState {
  readonly verdict: LockVerdict;
  /** The verdict in words. */
  readonly summary: string;
  /** Whether one token stands on a quorum, or a key of another type. False says nothing where the verdict is "unreachable". */
  readonly held: boolean;
  /** The beginning of that token. */
  readonly token?: string | undefined;
  /** The highest fence that any node has granted; 0 where none is known. */
  readonly fence: number;
  /** What is left of the lease on a quorum, in ms. */
  readonly remainingMs?: number | undefined;
  readonly nodes: readonly NodeState[];
}

/** Enough of a token to tell two apart, and far too little to guess the rest. */
function shortened(token: string): string {
  return `${token.slice(0, Math.min(8, token.length >> 2))}…`;
}

function nodeState(answer: Answer<InspectReply>): NodeState {
  const { from, ms: roundTripMs } = answer;
  const { label } = from;
  if (answer.kind !== "reply") return { label, outcome: answer.kind, reason: answer.reason, roundTripMs };
  const { type, token, counter, remainingMs } = answer.reply;
  return {
    label,
    outcome: type,
    fence: counter,
    ...(token === undefined ? {} : { token: shortened(token) }),
    ...(remainingMs === undefined || remainingMs < 0 ? {} : { remainingMs }),
    roundTripMs,
  };
}

/** What one token, or a key of another type, has of the nodes. */
interface Standing {
  readonly holder: string;
  readonly token?: string | undefined;
  readonly nodes: readonly NodeState[];
}

/** What the answers come to, in the order in which they are given. */
export function stateOf(answers: readonly Answer<InspectReply>[], quorum: number): LockState {
  const nodes = answers.map(nodeState);
  const holders = new Map<string | undefined, NodeState[]>();
  for (const [index, { reply }] of answers.entries()) {
    const node = nodes[index];
    if (node && reply && reply.type !== "free") holders.set(reply.token, [...(holders.get(reply.token) ?? []), node]);
  }
  const standings = [...holders]
    .map(([token, on]): Standing => {
      const short = token === undefined ? undefined : shortened(token);
      return { holder: short ?? "a key of another type", token: short, nodes: on };
    })
    .sort((a, b) => b.nodes.length - a.nodes.length);
  const [first] = standings;
  const held = first !== undefined && first.nodes.length >= quorum;
  const silent = nodes.filter(({ reason }) => reason !== undefined).length;
  const tokens = standings.filter(({ token }) => token !== undefined).length;
  const mayBeHeld = (first?.nodes.length ?? 0) + silent >= quorum;
  const verdict = tokens > 1 ? "split" : held ? "held" : mayBeHeld ? "unreachable" : first ? "minority" : "free";
  const left = held ? quorumRemainingMs(first.nodes.map(lifeOf), quorum) : Infinity;
  return {
    verdict,
    summary: summaryOf(verdict, standings, { count: nodes.length, quorum, silent }),
    held,
    ...(held && first.token !== undefined ? { token: first.token } : {}),
    fence: Math.max(0, ...nodes.map((node) => node.fence ?? 0)),
    ...(Number.isFinite(left) ? { remainingMs: left } : {}),
    nodes,
  };
}

/** What a lease has left on a node: without an expiry it has no end. */
function lifeOf({ remainingMs = Infinity }: NodeState): number {
  return remainingMs;
}

function summaryOf(
  verdict: LockVerdict,
  standings: readonly Standing[],
  { count, quorum, silent }: { readonly count: number; readonly quorum: number; readonly silent: number },
): string {
  const where = standings.map(({ holder, nodes }) => {
    const life = Math.max(...nodes.map(lifeOf));
    const until = Number.isFinite(life) ? `for another ${Math.ceil(life)} ms at most` : "without an end";
    return `${holder} on ${nodes.length} of ${count} (${nodes.map(({ label }) => label).join(", ")}), ${until}`;
  });
  const stands = where.join("; ");
  const words = {
    free: "Free: nobody holds it",
    held: `Held: ${stands}`,
    minority: `Not held: ${stands}, where a holder needs ${quorum}`,
    split:
      `Two tokens stand: ${stands}. On a primary and the replica that took over from it, both may be believed in: ` +
      "exclusion is broken. On independent masters it may be a try that failed: then another look shows one.",
    unreachable: `Nobody can tell: ${silent} of ${count} did not answer${stands && `; ${stands}`}`,
  };
  return words[verdict];
}
