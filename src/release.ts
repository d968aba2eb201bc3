/**
 * Lets go of a token everywhere: the release of a lease that was held, and the roll-back of an attempt that was not.
 *
 * @module
 */
import { sleep } from "./clock.ts";
import { type LockContext, settle } from "./context.ts";
import { notify } from "./events.ts";
import type { Holding } from "./holding.ts";
import type { LockKeys } from "./keys.ts";
import { type Answer, tooFewAnswers } from "./node.ts";
import { askAll, type Round } from "./round.ts";
import { type ReleaseReply, releaseScript } from "./scripts/release.ts";
import { tombstoneMs } from "./validity.ts";

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
  said: readonly (ReleaseReply["type"] | undefined)[],
  quorum: number,
  complete: boolean,
): Exclude<ReleaseOutcome, "already-released"> | undefined {
  const count = (wanted: ReleaseReply["type"]): number => said.filter((reply) => reply === wanted).length;
  if (count("deleted") >= quorum) return "released";
  if (count("foreign") > said.length - quorum) return "stolen";
  return complete && said.filter((reply) => reply !== undefined).length >= quorum ? "expired" : undefined;
}

/** The release of one lease, which may take several tries. Returns the function that makes one. */
export function createRelease(holding: Holding): () => Promise<ReleaseOutcome> {
  const { context, grant } = holding;
  const { nodes, quorum } = context;
  const said: (ReleaseReply["type"] | undefined)[] = nodes.map(() => undefined);
  // Nodes with an earlier try of this release that nobody answered: it may have deleted the key.
  const unanswered = new Set<number>();
  let heldAtFirst: boolean | undefined;
  let settled = false;
  let running: Promise<ReleaseOutcome> | undefined;

  const attempt = async (): Promise<ReleaseOutcome> => {
    heldAtFirst ??= !holding.endedBy;
    holding.finish("released");
    const uncertain = grant.holds.some((hold) => hold.uncertain);
    const { answers, cost } = await askRelease(context, grant, uncertain, (answer, index) => {
      if (answer.kind !== "reply") unanswered.add(index);
      else said[index] = unanswered.has(index) && heldAtFirst ? "deleted" : answer.reply.type;
      return !!releaseVerdict(said, quorum, false);
    });
    const outcome = releaseVerdict(said, quorum, answers.length === nodes.length);
    if (outcome) {
      settled = true;
      holding.tell({ type: "released", outcome }, cost);
      return outcome;
    }
    const error = tooFewAnswers("release the lease on", grant.name, answers);
    holding.tell({ type: "release-failed", code: error.code }, cost);
    throw error;
  };

  return async () => {
    if (settled) return "already-released";
    running ??= attempt().finally(() => {
      running = undefined;
    });
    return running;
  };
}

/**
 * Makes sure that a token is granted nowhere and never will be: on every node, whatever it has said, since a copy of
 * the acquire may be on its way. Resolves after the first of three tries, which the node time-outs bound; the others go
 * on behind.
 */
export async function rollBack(context: LockContext, target: Target, retry = 1): Promise<void> {
  const { answers, cost } = await askRelease(context, target, true);
  const nodes = answers.flatMap(({ kind, from }) => (kind === "reply" ? [] : [from]));
  const confirmed = !nodes.length;
  notify(context.observe, { type: "rolled-back", confirmed, name: target.name, ...cost });
  if (confirmed || retry >= 3) return;
  const pause = sleep(context.env.clock, 100 * retry);
  void settle(
    context,
    pause.then(() => rollBack({ ...context, nodes }, target, retry + 1)),
  );
}

function askRelease(
  context: LockContext,
  { keys, token, leaseMs }: Target,
  tombstone: boolean,
  decides?: (answer: Answer<ReleaseReply>, index: number) => boolean,
): Promise<Round<ReleaseReply>> {
  const args = [token, tombstone ? tombstoneMs(leaseMs) : 0];
  return askAll(context, { script: releaseScript, keys: [keys.lock, keys.tombstone(token)], args, leaseMs }, decides);
}
