/**
 * createLock: a lock on one Redis.
 *
 * @module
 */
import { type Attempts, granted } from "./acquire.ts";
import type { CommandClient } from "./command.ts";
import { type LockContext, settle, type Wanted } from "./context.ts";
import { type Environment, systemEnvironment } from "./environment.ts";
import { failure } from "./errors.ts";
import type { Hold } from "./holding.ts";
import { type Lock, type LockOptions, lockMethods } from "./lock-methods.ts";
import { type Answer, createNode, tooFewAnswers } from "./node.ts";
import { newToken } from "./random.ts";
import { rollBack } from "./release.ts";
import { askAll } from "./round.ts";
import { type AcquireReply, acquireScript } from "./scripts/acquire.ts";
import { checkClient } from "./validate.ts";
import { defaultDriftFactor } from "./validity.ts";

/** The least node time-out: a pause of this process must not look like a silent Redis. */
export const floorMs = 250;

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
export function createLock(client: CommandClient, options?: LockOptions, environment?: Environment): Lock {
  const nodes = [createNode(checkClient(client), 1)];
  const participants = () => {
    const env = environment ?? systemEnvironment();
    return { env, nodes, quorum: 1, driftFactor: defaultDriftFactor, floorMs };
  };
  return lockMethods(options, participants, attemptsOnOne);
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
export function attemptsOnOne(context: LockContext, wanted: Wanted): Attempts {
  const { env } = context;
  const { name, keys, leaseMs } = wanted;
  let token = newToken(env.random);
  let uncertain = false;
  let triedAtOnce = false;
  let cleaning: Promise<unknown> | undefined;

  const cleanUp = (): void => {
    cleaning = settle(context, rollBack(context, { ...wanted, token }));
    token = newToken(env.random);
    uncertain = false;
  };

  return {
    async next(signal, withinMs) {
      const { answers, cost } = await askAll(context, {
        script: acquireScript,
        keys: [keys.lock, keys.fence, keys.tombstone(token)],
        args: [token, leaseMs],
        leaseMs,
        withinMs,
        signal,
      });
      const answer = answers[0] as Answer<AcquireReply>; // of its one node
      const { reply } = answer;
      if (reply?.type === "granted") {
        const { fence } = reply;
        if (fence > largestFence) {
          cleanUp();
          throw failure("config", "acquire", name, "its fence is above 2 ** 52", { nodes: cost.nodes });
        }
        const holds: Hold[] = [{ ...reply, sentAt: answer.sentAt, leaseMs, uncertain }];
        const outcome = granted(context, { ...wanted, token, fence, holds }, cost);
        if (!outcome.held) cleanUp();
        return outcome;
      }
      if (reply?.type === "held") {
        const details = { nodes: cost.nodes, retryAfterMs: reply.remainingMs < 0 ? undefined : reply.remainingMs };
        return { error: failure("contended", "acquire", name, "another holds it", details), cost };
      }
      if (reply) token = newToken(env.random); // the node refuses this one for good
      const error = tooFewAnswers("acquire", name, answers);
      if (answer.final) throw error;
      if (cost.requests) uncertain = !reply;
      const atOnce = answer.kind === "unknown" && !error.retryAfterMs && !triedAtOnce;
      triedAtOnce ||= atOnce;
      return { error, atOnce, cost };
    },
    async giveUp() {
      if (uncertain) cleanUp();
      await cleaning;
    },
  };
}
