/**
 * Keeps a lease alive while its task runs: each round is renewed, lost or unknown, and unknown is neither of the others.
 *
 * @module
 */
import type { Holding } from "./holding.ts";
import { uniform } from "./random.ts";
import { estimateMs } from "./validity.ts";

// A round that failed is tried again at once, then in growing steps, but never in a loop that spins.
const shortestPauseMs = 20;

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
  let cancel = (): void => {};
  let stopped = false;
  const answerMs = (): number => Math.max(...context.nodes.map(({ trip }) => estimateMs(trip)));
  const after = (ms: number, failures: number): void => {
    cancel = clock.after(ms, false, () => {
      renew(failures).catch(() => stopped || after(pauseMs(failures, answerMs()), failures + 1));
    });
  };
  const scheduleNext = (): void => {
    const left = holding.remainingMs();
    const threeAttempts = 3 * 1.5 * answerMs();
    after(Math.max(left / 4, Math.min(left / 2, left - threeAttempts)) * uniform(random, 0.9, 1), 0);
  };
  const renew = async (failures: number): Promise<void> => {
    if (holding.endedBy) return;
    const { extended, round } = await holding.extend(grant.leaseMs, false);
    if (stopped || holding.endedBy) return;
    holding.tell({ type: extended ? "renewed" : "renewal-unknown", remainingMs: holding.remainingMs() }, round.cost);
    if (extended) scheduleNext();
    else after(pauseMs(failures, answerMs()), failures + 1);
  };

  scheduleNext();
  return () => {
    stopped = true;
    cancel();
  };
}

/** The pause after the n-th failure in a row, from 0: none, then half an answer's time, doubling up to a second. */
function pauseMs(failures: number, answerMs: number): number {
  return failures && Math.min(1_000, Math.max(shortestPauseMs, answerMs / 2) * 2 ** (failures - 1));
}
