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

/**
 * The release of one lease, which may take several tries. Returns the function that makes one; calls at the same time
 * share it.
 *
 * 1. A further try asks only the nodes that have not answered. Whatever one of them says, the unanswered try has deleted
 *    its key, if the lease was held at the first.
 * 2. q deletions are "released", more than N - q foreign tokens are "stolen".
 * 3. When nothing more can come, q definite answers of any kind are "expired", and fewer decide nothing.
 */
export function createRelease(holding: Holding): () => Promise<ReleaseOutcome> {
  const { context, grant } = holding;
  const { nodes, quorum } = context;
  const said = { deleted: 0, absent: 0, foreign: 0 };
  let silent = nodes;
  let heldAtFirst: boolean | undefined;
  let releasing: Promise<ReleaseOutcome> | undefined;

  const attempt = async (): Promise<ReleaseOutcome> => {
    const deletedBefore = heldAtFirst;
    heldAtFirst ??= !holding.ending();
    holding.end("released");
    const decided = (): "released" | "stolen" | false =>
      said.deleted >= quorum ? "released" : said.foreign > nodes.length - quorum && "stolen";
    const { answers, cost } = await askRelease(
      { ...context, nodes: silent },
      grant,
      grant.holds.some((hold) => hold.uncertain),
      ({ reply, from }) => {
        if (reply) {
          silent = silent.filter((node) => node !== from);
          said[deletedBefore ? "deleted" : reply.type] += 1;
        }
        return !!decided();
      },
    );
    const outcome = decided() || (nodes.length - silent.length >= quorum && "expired");
    if (outcome) {
      releasing = Promise.resolve("already-released");
      holding.tell({ type: "released", outcome, ...cost });
      return outcome;
    }
    const error = tooFewAnswers("release the lease on", grant.name, answers);
    holding.tell({ type: "release-failed", code: error.code, ...cost });
    throw error;
  };

  return () => {
    releasing ??= attempt().catch((error: unknown) => {
      releasing = undefined;
      throw error;
    });
    return releasing;
  };
}

/**
 * Makes sure that a token is granted nowhere and never will be: on every node, whatever it has said, since a copy of
 * the acquire may be on its way. Resolves after the first of three tries, which the node time-outs bound; the others, to
 * the nodes that have not answered, follow behind after 100 and 200 ms.
 */
export async function rollBack(context: LockContext, target: Target, retry = 1): Promise<void> {
  const { answers, cost } = await askRelease(context, target, true);
  const nodes = answers.filter(({ reply }) => !reply).map(({ from }) => from);
  const confirmed = !nodes.length;
  notify(context.observe, { type: "rolled-back", confirmed, name: target.name, ...cost });
  if (confirmed || retry >= 3) return;
  const again = () => rollBack({ ...context, nodes }, target, retry + 1);
  void settle(context, sleep(context.env.clock, 100 * retry).then(again));
}

function askRelease(
  context: LockContext,
  { keys, token, leaseMs }: Target,
  tombstone: boolean,
  decides?: (answer: Answer<ReleaseReply>) => boolean,
): Promise<Round<ReleaseReply>> {
  const args = [token, tombstone ? tombstoneMs(leaseMs) : 0];
  return askAll(context, { script: releaseScript, keys: [keys.lock, keys.tombstone(token)], args, leaseMs }, decides);
}
