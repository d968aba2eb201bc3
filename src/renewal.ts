/**
 * Keeps a lease alive while its task runs: each round is renewed, lost or unknown, and unknown is neither of the others.
 *
 * @module
 */
import type { Holding } from "./holding.ts";
import { chance } from "./random.ts";
import { estimateMs, quorumTrip } from "./validity.ts";

/**
 * Starts renewing and returns what stops it. Keeps no process alive.
 *
 * 1. A round starts when half of the usable lease has passed, or earlier, but not before a quarter, if less than three
 *    attempts with their pauses would fit into what is left; up to 10 % earlier still, so that holders spread out.
 * 2. Renewed: go to 1. Unknown: again at once, then after growing pauses, with the same token, until the deadline: the
 *    old bound stands as long as it lasts. Lost: nothing is sent any more.
 * 3. Each step looks at the clocks first, so that a process that was frozen past its deadline sends nothing.
 */
export function startRenewal(holding: Holding): () => void {
  const { context, grant } = holding;
  const { clock, random } = context.env;
  let cancel: (() => void) | undefined;

  const schedule = (failures: number): void => {
    const answerMs = estimateMs(quorumTrip(context.nodes, context.quorum));
    const left = holding.remainingMs();
    const threeAttempts = 4.5 * answerMs; // each with half an answer's time to spare
    const early = Math.max(left / 4, Math.min(left / 2, left - threeAttempts)) * (1 - chance(random) / 10);
    // From the second failure half an answer's time, doubling up to a second; but never a loop that spins.
    const late = failures > 1 ? Math.min(1_000, Math.max(20, answerMs / 2) * 2 ** (failures - 2)) : 0;
    cancel = clock.after(failures ? late : early, false, () => {
      holding.extend(grant.leaseMs, "renewed").then(
        () => schedule(0),
        () => holding.ending() || schedule(failures + 1),
      );
    });
  };

  schedule(0);
  return () => cancel?.();
}
