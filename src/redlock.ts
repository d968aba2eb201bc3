/**
 * createRedlock: a lock on a quorum of Redis masters that know nothing of each other.
 *
 * @module
 */
import { type Attempts, granted } from "./acquire.ts";
import type { CommandClient } from "./command.ts";
import { type LockContext, settle, type Wanted } from "./context.ts";
import { type Environment, systemEnvironment } from "./environment.ts";
import { failure } from "./errors.ts";
import type { Grant, Hold } from "./holding.ts";
import type { HeldLease } from "./lease.ts";
import { attemptsOnOne } from "./lock.ts";
import { type Lock, type LockOptions, lockMethods } from "./lock-methods.ts";
import { createNode, reportOf, tooFewAnswers } from "./node.ts";
import { newToken } from "./random.ts";
import { rollBack } from "./release.ts";
import { askAll, type Round, type RoundQuestion } from "./round.ts";
import type { AcquireReply } from "./scripts/acquire.ts";
import { proposeScript } from "./scripts/propose.ts";
import { checkClient, invalid } from "./validate.ts";
import { defaultDriftFactor, majority } from "./validity.ts";

/** Settings of a Redlock. */
export interface RedlockOptions extends LockOptions {
  /**
   * How many nodes must grant. More than a majority tolerates nodes that forget or whose clocks step: with `quorum` 4 of
   * 5 nodes, one of them cannot give the lock to a second holder.
   *
   * @default {a majority: floor(N / 2) + 1}
   */
  readonly quorum?: number | undefined;
  /**
   * By which part of a duration the clocks of this process and of the nodes may disagree; taken off every lease.
   *
   * @default {0.01}
   */
  readonly driftFactor?: number | undefined;
}

/** The least node time-out where a silent node is one of several. */
const floorMs = 100;

/** A Worker may wait for six responses at once; one is left for the work that the lock is for. */
const mostNodesOnWorkers = 5;

/** How far ahead of a node's clock a fence may be. */
const dayUs = 86_400_000_000;

/**
 * Creates a lock on several independent Redis masters, over TCP and HTTP in any mix. Sends nothing yet. A lease is held
 * once a quorum has granted it, so the lock goes on while a minority of the nodes is slow, silent or gone, and costs as
 * many requests as there are nodes. Over one node it is `createLock`.
 *
 * Promised: as for `createLock`, and fences grow from holder to holder across all quorums as long as the nodes keep their
 * data. Not promised: anything once as many nodes have lost a live lease, or have stepped their clocks, as two quorums
 * have in common at least (one with a majority of an odd number): there `fence` protects what checks it.
 *
 * @throws LockError "config" when an option is out of bounds, a client is none or given twice, or none is given
 *
 * @example
 * ```ts
 * import { createRedlock } from "leasehold";
 * import { memoryClient } from "leasehold/memory";
 *
 * const lock = createRedlock([memoryClient(), memoryClient(), memoryClient()]);
 * await lock.withLock("invoice:42", async (lease) => {
 *   console.log(`fence ${lease.fence} is above all before it`);
 * });
 * ```
 */
export function createRedlock(
  clients: readonly CommandClient[],
  options: RedlockOptions = {},
  environment?: Environment,
): Lock {
  const nodes = clients.map((client, index) => createNode(checkClient(client), index + 1));
  const count = nodes.length;
  const least = majority(count);
  const { quorum = least, driftFactor = defaultDriftFactor } = options;
  if (!count || new Set(clients).size < count) throw invalid("clients", count, "one or more, each of them once");
  if (!Number.isInteger(quorum) || quorum < least || quorum > count) {
    throw invalid("quorum", quorum, `an integer from ${least} to ${count}`);
  }
  if (!(driftFactor >= 0 && driftFactor < 1)) throw invalid("driftFactor", driftFactor, "from 0 up to 1");
  const parts = { nodes, quorum, driftFactor, floorMs };
  let lastUs = 0;
  // Within the ms that the wall clock cannot tell apart, each proposal is above the one before.
  const tick = (us: number): number => {
    lastUs = lastUs >= us && lastUs < us + 1_000 ? lastUs + 1 : us;
    return lastUs;
  };
  return lockMethods(
    options,
    () => {
      const env = environment ?? systemEnvironment();
      if (env.host.isolatesRequests && count > mostNodesOnWorkers) {
        throw invalid("clients", count, `at most ${mostNodesOnWorkers} on Workers`);
      }
      return { ...parts, env };
    },
    (context, wanted) => (count > 1 ? attemptsOnQuorum(context, wanted, tick) : attemptsOnOne(context, wanted)),
  );
}

/**
 * Attempts on several nodes, each of them a round.
 *
 * 1. A round is won at the q-th grant, and lost as soon as more than N - q nodes have not granted. What comes later still
 *    counts for the lease: a late grant is one more bound.
 * 2. Each round has a token of its own. That of a round that was lost, or whose lease is too short, is rolled back on all
 *    nodes at once, whatever they have said; that is awaited only on giving up.
 * 3. The round proposes a fence, the wall clock in µs or more than any node has granted, and a node grants only what is
 *    above all that it has granted. Where that alone lost the round, the next one follows at once, up to three times.
 */
function attemptsOnQuorum(context: LockContext, wanted: Wanted, tick: (us: number) => number): Attempts {
  const { env, nodes, quorum } = context;
  const { name, leaseMs } = wanted;
  const spare = nodes.length - quorum;
  const counters = nodes.map(() => 0);
  let raises = 3;
  let cleaning: Promise<unknown> | undefined;

  return {
    async next(signal, withinMs) {
      const token = newToken(env.random);
      const sentAt = env.clock.now();
      const wallUs = Math.floor(sentAt.wall * 1_000);
      const usable = counters.filter((counter) => counter < wallUs + dayUs);
      const fence = Math.max(tick(wallUs), ...usable.map((counter) => counter + 1));
      const holds = nodes.map((): Hold => ({ sentAt, remainingMs: -Infinity, leaseMs, uncertain: true }));
      const ballot: Ballot = { ...wanted, token, fence, holds, counters, grants: 0, tooLow: 0, others: 0, waits: [] };
      const cleanUp = (): void => {
        cleaning = Promise.all([cleaning, settle(context, rollBack(context, { ...wanted, token }))]);
      };
      const { answers, cost } = await vote(context, ballot, { signal, withinMs }).catch((error: unknown) => {
        cleanUp(); // one client is not fit for use, and others may have granted
        throw error;
      });
      if (ballot.grants >= quorum) {
        const outcome = granted(context, ballot, cost);
        ballot.held = outcome.held;
        if (!outcome.held) cleanUp();
        return outcome;
      }
      if (cost.requests) cleanUp();
      if (counters.filter((counter) => counter >= wallUs + dayUs).length > spare) {
        const reason = "the clocks of this client and of the nodes are more than a day apart";
        throw failure("config", "acquire", name, reason, { nodes: cost.nodes });
      }
      if (answers.filter(({ reply }) => !reply).length > spare) {
        const error = tooFewAnswers("acquire", name, answers);
        if (answers.filter(({ final }) => final).length > spare) throw error;
        return { error, cost };
      }
      const details = { nodes: cost.nodes, retryAfterMs: freeAfterMs(ballot.waits, quorum) };
      const error = failure("contended", "acquire", name, "another holds it", details);
      return { error, atOnce: ballot.others <= spare && raises-- > 0, cost };
    },
    async giveUp() {
      await cleaning;
    },
  };
}

/** One round: what is proposed, and what has come of it so far. */
interface Ballot extends Omit<Grant, "flightMs"> {
  /** The highest fence that each node has granted. */
  readonly counters: number[];
  /** For how long each node that has replied is held by another. */
  readonly waits: number[];
  grants: number;
  tooLow: number;
  others: number;
  held?: HeldLease | undefined;
}

/** Asks every node to grant, and notes what each says, also once the round is decided. */
function vote(
  context: LockContext,
  ballot: Ballot,
  bounds: Pick<RoundQuestion<AcquireReply>, "signal" | "withinMs">,
): Promise<Round<AcquireReply>> {
  const { nodes, quorum } = context;
  const { keys, token, leaseMs, fence, holds, counters, waits } = ballot;
  const question = {
    script: proposeScript,
    keys: [keys.lock, keys.fence, keys.tombstone(token)],
    args: [token, leaseMs, fence],
    leaseMs,
    ...bounds,
  };
  return askAll(context, question, (answer, index) => {
    const { reply, sentAt, requests, ms: durationMs } = answer;
    const hold = holds[index];
    const type = reply?.type;
    if (reply && hold) {
      hold.uncertain = false;
      // A node that finds the fence too far ahead is as far from this client's clock as one whose counter is there.
      counters[index] = type === "fence-in-future" ? Infinity : reply.fence;
      if (type !== "held") waits.push(0);
      else if (reply.remainingMs >= 0) waits.push(reply.remainingMs);
    }
    if (reply && hold && type === "granted") {
      if (hold.remainingMs < 0) Object.assign(hold, { sentAt, remainingMs: reply.remainingMs }); // else extended since
      ballot.grants += 1;
      const holding = ballot.held?.holding;
      if (!holding?.ending()) holding?.tell({ type: "late-grant", nodes: [reportOf(answer)], requests, durationMs });
    } else if (type === "fence-too-low") ballot.tooLow += 1;
    else ballot.others += 1;
    return ballot.grants >= quorum || ballot.tooLow + ballot.others > nodes.length - quorum;
  });
}

/** When a quorum is free at the latest, where the holders' leases have an end. */
function freeAfterMs(waits: readonly number[], quorum: number): number | undefined {
  const sorted = [...waits].sort((a, b) => a - b);
  return sorted[Math.min(quorum, sorted.length) - 1] || undefined;
}
