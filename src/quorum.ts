/**
 * How a Redlock tries to acquire: rounds on several nodes, of which a quorum must grant.
 *
 * @module
 */
import { type Attempts, granted } from "./acquire.ts";
import { type LockContext, settle, type Wanted } from "./context.ts";
import { failure, type LockError } from "./errors.ts";
import type { Hold } from "./holding.ts";
import type { HeldLease } from "./lease.ts";
import { type Answer, reportOf, tooFewAnswers } from "./node.ts";
import { newToken } from "./random.ts";
import { rollBack } from "./release.ts";
import { askAll, type Round } from "./round.ts";
import type { AcquireReply } from "./scripts/acquire.ts";
import { proposeScript } from "./scripts/propose.ts";
import { checkLeaseMs } from "./validate.ts";

const farApart = "the clocks of this client and of the nodes are more than a day apart";

/** How far ahead of a node's clock a fence may be. */
const dayUs = 86_400_000_000;

/**
 * Attempts on several nodes, each of them a round.
 *
 * 1. A round is won at the q-th grant, and lost as soon as more than N - q nodes have not granted. What comes later still
 *    counts: a late grant is one more bound, unless the lease is over or that node has been extended since.
 * 2. Each round has a token of its own. That of a round that was lost, or whose lease is too short, is rolled back on all
 *    nodes at once, whatever they have said; that is awaited only on giving up.
 * 3. The round proposes a fence, the wall clock in µs or more than any node has granted, and a node grants only what is
 *    above all that it has granted. Where that alone lost the round, the next one follows at once, up to three times.
 * 4. With a bound on leases, a node that was started less than the longest one ago grants nothing: it may have forgotten
 *    a lease that still lasts. It counts as one that has not answered.
 */
export function attemptsOnQuorum(context: LockContext, wanted: Wanted): Attempts {
  const { env, nodes, quorum, driftFactor, longestMs } = context;
  const { name, keys, leaseMs } = wanted;
  checkLeaseMs(leaseMs, longestMs);
  // A second more, as Redis tells its uptime in whole ones.
  const leastUptime = longestMs ? [Math.ceil(longestMs * (1 + driftFactor)) + 1_000] : [];
  const spare = nodes.length - quorum;
  const counters = nodes.map(() => 0);
  let raises = 3;
  let cleaning: Promise<unknown> | undefined;

  return {
    async next(signal, withinMs) {
      const token = newToken(env.random);
      const sentAt = env.clock.now();
      const wallUs = Math.floor(sentAt.wall * 1_000);
      const isFar = (counter: number): boolean => counter > wallUs + dayUs;
      const fence = Math.max(wallUs, ...counters.map((counter) => (isFar(counter) ? 0 : counter + 1)));
      const holds = nodes.map((): Hold => ({ sentAt, remainingMs: -Infinity, leaseMs, uncertain: true }));
      let grants = 0;
      let losses = 0;
      let held: HeldLease | undefined;
      const cleanUp = (): void => {
        cleaning = Promise.all([cleaning, settle(context, rollBack(context, { ...wanted, token }))]);
      };
      const question = {
        script: proposeScript,
        keys: [keys.lock, keys.fence, keys.tombstone(token)],
        args: [token, leaseMs, fence, ...leastUptime],
        leaseMs,
        withinMs,
        signal,
      };
      const asking = askAll(context, question, (answer, index) => {
        const { reply, sentAt, requests, ms: durationMs } = answer;
        const hold = holds[index] as Hold;
        if (reply) {
          hold.uncertain = false;
          // A node that finds the fence too far ahead has a clock as far from this one as a counter can be.
          counters[index] = reply.type === "fence-in-future" ? Infinity : reply.fence;
        }
        if (reply?.type === "granted") {
          grants += 1;
          const isOver = held?.holding.ending(); // asked before the bound moves: what is over stays over
          if (!isOver && hold.remainingMs < 0) Object.assign(hold, { sentAt, remainingMs: reply.remainingMs });
          if (!isOver) held?.holding.tell({ type: "late-grant", nodes: [reportOf(answer)], requests, durationMs });
        } else losses += 1;
        return grants >= quorum || losses > spare;
      });
      const round = await asking.catch((error: unknown) => {
        cleanUp(); // one client is not fit for use, and others may have granted
        throw error;
      });
      if (grants >= quorum) {
        const outcome = granted(context, { ...wanted, token, fence, holds }, round.cost);
        held = outcome.held;
        if (!held) cleanUp();
        return outcome;
      }
      if (round.cost.requests) cleanUp();
      if (counters.filter(isFar).length > spare)
        throw failure("config", "acquire", name, farApart, { nodes: round.cost.nodes });
      const { error, isLow } = lossOf(name, round, quorum, spare);
      return { error, atOnce: isLow && raises-- > 0, cost: round.cost };
    },
    async giveUp() {
      await cleaning;
    },
  };
}

/** Why a round was lost, and whether it was so by too low a fence alone; throws where another try is of no use. */
function lossOf(
  name: string,
  { answers, cost: { nodes } }: Round<AcquireReply>,
  quorum: number,
  spare: number,
): { readonly error: LockError; readonly isLow: boolean } {
  const tooMany = (test: (answer: Answer<AcquireReply>) => unknown): boolean => answers.filter(test).length > spare;
  if (tooMany(({ reply }) => !reply || reply.type === "quarantined")) {
    const error = tooFewAnswers("acquire", name, answers);
    if (tooMany(({ final }) => final)) throw error;
    return { error, isLow: false };
  }
  // When a quorum is free at the latest, where the holders' leases have an end.
  const waits = answers.flatMap(({ reply }) => (reply ? (reply.type === "held" ? reply.remainingMs : 0) : []));
  const ends = waits.filter((ms) => ms >= 0).sort((a, b) => a - b);
  const retryAfterMs = ends[Math.min(quorum, ends.length) - 1] || undefined;
  const error = failure("contended", "acquire", name, "another holds it", { nodes, retryAfterMs });
  return { error, isLow: !tooMany(({ reply }) => !reply || reply.type === "held") };
}
