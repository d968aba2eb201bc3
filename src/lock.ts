/**
 * createLock: a lock on one Redis.
 *
 * @module
 */
import type { Attempts, Verdict } from "./acquire.ts";
import type { CommandClient } from "./command.ts";
import type { LockContext } from "./context.ts";
import { type Environment, systemEnvironment } from "./environment.ts";
import { LockError } from "./errors.ts";
import { Holding } from "./holding.ts";
import { createLease } from "./lease.ts";
import { type Lock, type LockOptions, lockMethods, type Wanted } from "./lock-methods.ts";
import { type Answer, ask, createNode, type Node, reportOf, tooFewAnswers } from "./node.ts";
import { newToken } from "./random.ts";
import { rollBack } from "./release.ts";
import { type AcquireReply, acquireScript } from "./scripts/acquire.ts";
import { checkClient } from "./validate.ts";
import { defaultDriftFactor, flightMs, isTooShort, leastUsefulLeaseMs, nodeTimeoutMs } from "./validity.ts";

/** The least node time-out: a pause of this process must not look like a silent Redis. */
const floorMs = 250;

/** Above this a number is close to where fences would stop being exact; no clock gets there before the year 2112. */
const largestFence = 2 ** 52;

/**
 * Creates a lock on one Redis. Sends nothing yet.
 *
 * Promised: while clocks run at the same rate within 1 %, no clock of the server steps, the server forgets no live lease
 * and your writes land before `remaining()` ends, no two leases of one name are held at once. Not promised: anything
 * about a write that lands later. There `fence` protects what checks it.
 *
 * @throws LockError "config" when an option is out of bounds or the client is none
 *
 * @example
 * ```ts
 * import { createLock } from "leasehold";
 * import { memoryClient } from "leasehold/memory";
 *
 * const lock = createLock(memoryClient());
 * const total = await lock.withLock("invoice:42", async (lease) => {
 *   lease.assertHeld();
 *   return 40 + 2;
 * });
 * console.log(total);
 * ```
 */
export function createLock(client: CommandClient, options: LockOptions = {}, environment?: Environment): Lock {
  const node = createNode(checkClient(client), 1);
  let env = environment;
  return lockMethods(
    options,
    (observe, waitUntil) => {
      env ??= systemEnvironment();
      return { env, nodes: [node], quorum: 1, driftFactor: defaultDriftFactor, floorMs, observe, waitUntil };
    },
    (context, wanted) => attemptsOnOne(context, node, wanted),
  );
}

/**
 * Attempts on one Redis.
 *
 * 1. One token serves all tries of a call, so a try finds what an earlier one was granted without being told.
 * 2. After an unknown outcome the same token is tried once more at once, then by the schedule.
 * 3. A token dies at the first roll-back sent for it: a grant with too little left is rolled back, and the next try has
 *    a new one.
 * 4. On giving up, a token of which some try was never definitely answered is rolled back with a tombstone.
 */
function attemptsOnOne(context: LockContext, node: Node, wanted: Wanted): Attempts {
  const { name, keys, leaseMs } = wanted;
  const { env } = context;
  let token = newToken(env.random);
  let uncertain = false;
  let triedAgain = false;
  let cleaning = Promise.resolve();

  const cleanUp = (): void => {
    cleaning = rollBack(context, { name, keys, token, leaseMs });
    token = newToken(env.random);
    uncertain = false;
  };
  const granted = (answer: Answer<AcquireReply>, fence: number, remainingMs: number): Verdict => {
    const bound = { sentAt: answer.sentAt, remainingMs, leaseMs };
    const grant = { name, keys, token, fence, leaseMs, flightMs: flightMs(node.trip, leaseMs) };
    const holding = new Holding(context, { ...grant, holds: [{ bound, uncertain }] });
    if (fence > largestFence) {
      cleanUp();
      const message = `Cannot acquire "${name}" as its fence is no longer exact: current value is ${fence}`;
      return { type: "refused", error: new LockError("config", message, { lockName: name }) };
    }
    if (isTooShort(holding.usableMs(), leaseMs)) {
      cleanUp();
      return { type: "failed", again: false, error: tooShortError(node, wanted, context.driftFactor, answer.ms) };
    }
    return { type: "granted", held: createLease(holding) };
  };

  return {
    async next(signal, withinMs) {
      const answer = await ask(env, node, {
        script: acquireScript,
        keys: [keys.lock, keys.fence, keys.tombstone(token)],
        args: [token, leaseMs, ""],
        timeoutMs: Math.min(withinMs, nodeTimeoutMs(node.trip, leaseMs, context.floorMs)),
        signal,
      });
      const nodes = [reportOf(answer, ({ type }) => type)];
      const { requests } = answer;
      if (answer.kind === "reply") {
        const { reply } = answer;
        if (reply.type === "granted") return { ...granted(answer, reply.fence, reply.remainingMs), requests, nodes };
        if (reply.type === "held") {
          return { type: "held", holderMs: reply.remainingMs < 0 ? undefined : reply.remainingMs, requests, nodes };
        }
        token = newToken(env.random); // the node refuses this one for good
      }
      const error = tooFewAnswers("acquire", name, [answer], nodes);
      if (answer.kind === "no-vote" && answer.refused !== "other") return { type: "refused", error, requests, nodes };
      uncertain = answer.kind !== "reply";
      const again = answer.kind === "unknown" && !triedAgain;
      triedAgain ||= again;
      return { type: "failed", error, again, requests, nodes };
    },
    async giveUp() {
      if (uncertain) cleanUp();
      await cleaning;
    },
  };
}

function tooShortError(node: Node, { name, leaseMs }: Wanted, driftFactor: number, ms: number): LockError {
  const least = leastUsefulLeaseMs(node.trip, driftFactor);
  const message =
    `Cannot acquire "${name}" as leaseMs is too short for the measured round trip of ${Math.ceil(ms)} ms: ` +
    `current value is ${leaseMs}, the least useful lease is ${least}`;
  return new LockError("config", message, { lockName: name });
}
