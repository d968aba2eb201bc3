/**
 * Lets go of a token everywhere: the release of a lease that was held, and the roll-back of an attempt that was not.
 *
 * @module
 */
import { sleep } from "./clock.ts";
import type { LockContext } from "./context.ts";
import { notify } from "./events.ts";
import type { Holding } from "./holding.ts";
import type { LockKeys } from "./keys.ts";
import { type Answer, askEach, type Node, reportOf, tooFewAnswers } from "./node.ts";
import { type ReleaseReply, releaseScript } from "./scripts/release.ts";
import { nodeTimeoutMs, tombstoneMs } from "./validity.ts";
import { retryDelayMs } from "./wait.ts";

/** What became of the lock when its lease was released. */
export type ReleaseOutcome =
  /** It was ours and is free. */
  | "released"
  /** It was over before, and nobody has it. */
  | "expired"
  /** It was over before, and another has it. */
  | "stolen"
  /** An earlier call has settled it; nothing was sent. */
  | "already-released";

/** One token to let go of. */
export interface Target {
  readonly name: string;
  readonly keys: LockKeys;
  readonly token: string;
  readonly leaseMs: number;
}

/**
 * Decides a release from what each node has said so far, undefined for nothing yet: q deletions are "released", more
 * than N - q foreign tokens are "stolen"; when nothing more can come, q definite answers of any kind are "expired", and
 * fewer decide nothing.
 */
export function releaseVerdict(
  said: readonly (ReleaseReply | undefined)[],
  quorum: number,
  complete: boolean,
): Exclude<ReleaseOutcome, "already-released"> | undefined {
  const count = (wanted: ReleaseReply): number => said.filter((reply) => reply === wanted).length;
  if (count("deleted") >= quorum) return "released";
  if (count("foreign") > said.length - quorum) return "stolen";
  return complete && said.filter((reply) => reply !== undefined).length >= quorum ? "expired" : undefined;
}

/** The release of one lease, which may take several tries. Returns the function that makes one. */
export function createRelease(holding: Holding): () => Promise<ReleaseOutcome> {
  const { context, grant } = holding;
  const { name, fence, holds } = grant;
  const said = new Array<ReleaseReply | undefined>(context.nodes.length).fill(undefined);
  // Nodes with an earlier try of this release that nobody answered: it may have deleted the key.
  const unanswered = new Set<number>();
  let heldAtFirst: boolean | undefined;
  let settled = false;
  let running: Promise<ReleaseOutcome> | undefined;

  const attempt = async (): Promise<ReleaseOutcome> => {
    heldAtFirst ??= holding.remainingMs() > 0;
    holding.end();
    const startedAt = context.env.clock.now();
    const uncertain = holds.some((hold) => hold.uncertain);
    const target = { ...grant, leaseMs: holding.longestMs };
    const answers: Answer<ReleaseReply>[] = [];
    const { decided, late } = askRelease(context, target, uncertain, (answer, index) => {
      answers.push(answer);
      if (answer.kind !== "reply") unanswered.add(index);
      else if (unanswered.has(index) && heldAtFirst) said[index] = "deleted";
      else said[index] = answer.reply;
      return releaseVerdict(said, context.quorum, false) !== undefined;
    });
    await decided;
    if (answers.length < said.length) context.waitUntil?.(late);
    const outcome = releaseVerdict(said, context.quorum, answers.length === said.length);
    const nodes = answers.map((answer) => reportOf(answer, (reply) => reply));
    const happened = { name, fence, nodes, requests: total(answers), durationMs: since(context, startedAt) };
    if (outcome === undefined) {
      const error = tooFewAnswers("release the lease on", name, answers, nodes);
      notify(context.observe, { type: "release-failed", code: error.code, ...happened });
      throw error;
    }
    settled = true;
    notify(context.observe, { type: "released", outcome, ...happened });
    return outcome;
  };

  return () => {
    if (settled) return Promise.resolve("already-released");
    running ??= attempt().finally(() => {
      running = undefined;
    });
    return running;
  };
}

const rollBackTries = 3;

/**
 * Makes sure that a token is granted nowhere and never will be: on every node, whatever it has said, since a copy of
 * the acquire may be on its way. Resolves after the first try, which the node time-outs bound; later tries go on behind.
 * With `waitUntil` all of it goes on behind. Never rejects.
 */
export async function rollBack(context: LockContext, target: Target): Promise<void> {
  const { env, nodes, observe } = context;
  const startedAt = env.clock.now();
  let open = nodes;
  const answers: Answer<ReleaseReply>[] = [];
  const attempt = async (): Promise<boolean> => {
    const asked = open;
    const { decided } = askRelease({ ...context, nodes: asked }, target, true, (answer, index) => {
      answers.push(answer);
      if (answer.kind === "reply") open = open.filter((node) => node !== asked[index]);
      return false;
    });
    await decided;
    return open.length === 0;
  };
  const first = attempt();
  const whole = (async () => {
    let done = await first;
    for (let retry = 1; !done && retry < rollBackTries; retry += 1) {
      await sleep(env.clock, retryDelayMs({ retry, waitedMs: 0, holderMs: undefined, chance: 0.5 }));
      done = await attempt();
    }
    const { name } = target;
    const reports = answers.map((answer) => reportOf(answer, (reply) => reply));
    const requests = total(answers);
    notify(observe, {
      type: "rolled-back",
      confirmed: done,
      name,
      requests,
      durationMs: since(context, startedAt),
      nodes: reports,
    });
  })().catch(() => {}); // a client's "config" error, which the attempt itself has met already
  if (context.waitUntil) context.waitUntil(whole);
  else await first.catch(() => {});
}

function askRelease(
  { env, nodes, floorMs }: LockContext,
  { keys, token, leaseMs }: Target,
  tombstone: boolean,
  onAnswer: (answer: Answer<ReleaseReply>, index: number) => boolean,
): { decided: Promise<void>; late: Promise<unknown> } {
  const question = ({ trip }: Node) => ({
    script: releaseScript,
    keys: [keys.lock, keys.tombstone(token)],
    args: [token, tombstone ? tombstoneMs(leaseMs) : 0],
    timeoutMs: nodeTimeoutMs(trip, leaseMs, floorMs),
  });
  return askEach(env, nodes, question, onAnswer);
}

function total(answers: readonly Answer<unknown>[]): number {
  return answers.reduce((sum, { requests }) => sum + requests, 0);
}

function since({ env }: LockContext, startedAt: { monotonic: number }): number {
  return env.clock.now().monotonic - startedAt.monotonic;
}
