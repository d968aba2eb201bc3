/**
 * Keeps a lease alive while its task runs: each round is renewed, lost or unknown, and unknown is neither of the others.
 *
 * @module
 */
import { notify } from "./events.ts";
import type { Holding } from "./holding.ts";
import { uniform } from "./random.ts";
import { estimateMs } from "./validity.ts";

// A round that failed is tried again at once, then in growing steps, but never in a loop that spins.
const shortestPauseMs = 20;

/**
 * Starts renewing and returns what stops it. Keeps no process alive.
 *
 * 1. A round starts when half of the usable lease has passed, or earlier if less than three attempts with their pauses
 *    would fit into what is left; up to 10 % earlier still, so that holders spread out.
 * 2. Renewed: go to 1. Unknown: again at once, then after growing pauses, with the same token, until the deadline: the
 *    old bound stands as long as it lasts. Lost: nothing is sent any more.
 * 3. Each step looks at the clocks first, so that a process that was frozen past its deadline sends nothing.
 */
export function startRenewal(holding: Holding): () => void {
  const { context, grant } = holding;
  const { name, fence, leaseMs } = grant;
  const { clock, random } = context.env;
  let stopped = false;
  let cancel = (): void => {};

  const stop = (): void => {
    stopped = true;
    cancel();
  };
  const after = (ms: number, failures: number): void => {
    cancel = clock.after(ms, false, () => {
      round(failures).catch(() => after(pauseMs(failures, slowestMs()), failures + 1));
    });
  };
  const slowestMs = (): number => Math.max(...context.nodes.map(({ trip }) => estimateMs(trip)));
  const scheduleNext = (): void => {
    const left = holding.remainingMs();
    const threeAttempts = 3 * 1.5 * slowestMs();
    after(Math.max(0, Math.min(left / 2, left - threeAttempts)) * uniform(random, 0.9, 1), 0);
  };
  const round = async (failures: number): Promise<void> => {
    if (holding.over || stopped) return;
    const { outcome, requests, durationMs, reports: nodes } = await holding.extend(leaseMs, false);
    if (holding.over || stopped) return;
    const happened = { name, fence, remainingMs: holding.remainingMs(), requests, durationMs, nodes };
    if (outcome === "extended") {
      notify(context.observe, { type: "renewed", ...happened });
      scheduleNext();
    } else {
      notify(context.observe, { type: "renewal-unknown", ...happened });
      after(pauseMs(failures, slowestMs()), failures + 1);
    }
  };

  holding.onOver(stop);
  scheduleNext();
  return stop;
}

/** The pause after the n-th failure in a row, from 0: none, then half an answer's time, doubling up to a second. */
function pauseMs(failures: number, answerMs: number): number {
  if (failures === 0) return 0;
  return Math.min(1_000, Math.max(shortestPauseMs, answerMs / 2) * 2 ** (failures - 1));
}
