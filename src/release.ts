/**
 * Lets go of a token everywhere: the release of a lease that was held, and the roll-back of an attempt that was not.
 *
 * @module
 */
import { sleep } from "./clock.ts";
import { type LockContext, settle, type Wanted } from "./context.ts";
import { notify } from "./events.ts";
import type { Holding } from "./holding.ts";
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
export interface Target extends Wanted {
  readonly token: string;
}

/** What a node has said to a release so far; "unanswered": an earlier try may have deleted the key. */
type Said = ReleaseReply["type"] | "unanswered";

/**
 * The release of one lease, which may take several tries. Returns the function that makes one; calls at the same time
 * share it.
 *
 * 1. A node that answers after an unanswered try has deleted the key in that one, if the lease was held at the first.
 * 2. q deletions are "released", more than N - q foreign tokens are "stolen".
 * 3. When nothing more can come, q definite answers of any kind are "expired", and fewer decide nothing.
 */
export function createRelease(holding: Holding): () => Promise<ReleaseOutcome> {
  const { context, grant } = holding;
  const { nodes, quorum } = context;
  const said: Said[] = [];
  let heldAtFirst: boolean | undefined;
  let releasing: Promise<ReleaseOutcome> | undefined;

  const verdict = (complete: boolean): "released" | "stolen" | "expired" | undefined => {
    const count = (wanted: Said): number => said.filter((word) => word === wanted).length;
    if (count("deleted") >= quorum) return "released";
    if (count("foreign") > nodes.length - quorum) return "stolen";
    return complete && said.length - count("unanswered") >= quorum ? "expired" : undefined;
  };
  const attempt = async (): Promise<ReleaseOutcome> => {
    heldAtFirst ??= !holding.ending();
    holding.end("released");
    const uncertain = grant.holds.some((hold) => hold.uncertain);
    const { answers, cost } = await askRelease(context, grant, uncertain, ({ reply }, index) => {
      const before = said[index];
      if (!reply) said[index] = before ?? "unanswered";
      else if (before === "unanswered" && heldAtFirst) said[index] = "deleted";
      else if (before !== "deleted") said[index] = reply.type;
      return !!verdict(false);
    });
    const outcome = verdict(answers.length === nodes.length);
    if (outcome) {
      releasing = Promise.resolve("already-released");
      holding.tell({ type: "released", outcome, ...cost });
      return outcome;
    }
    releasing = undefined;
    const error = tooFewAnswers("release the lease on", grant.name, answers);
    holding.tell({ type: "release-failed", code: error.code, ...cost });
    throw error;
  };

  return () => (releasing ??= attempt());
}

/**
 * Makes sure that a token is granted nowhere and never will be: on every node, whatever it has said, since a copy of
 * the acquire may be on its way. Resolves after the first of three tries, which the node time-outs bound; the others go
 * on behind.
 */
export async function rollBack(context: LockContext, target: Target, retry = 1): Promise<void> {
  const { answers, cost } = await askRelease(context, target, true);
  const nodes = answers.filter(({ reply }) => !reply).map(({ from }) => from);
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
