/**
 * createRedlock: a lock on a quorum of Redis masters that know nothing of each other.
 *
 * @module
 */
import type { CommandClient } from "./command.ts";
import { type Environment, systemEnvironment } from "./environment.ts";
import { attemptsOnOne, floorMs } from "./lock.ts";
import { type Lock, type LockOptions, lockMethods } from "./lock-methods.ts";
import { createNode } from "./node.ts";
import { attemptsOnQuorum } from "./quorum.ts";
import { checkClient, checkDriftFactor, checkDuration, checkLeaseMs, checkQuorum, invalid } from "./validate.ts";
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
  /**
   * The longest lease that any client of these nodes asks for, by `extend` too, in whole ms from this lock's `leaseMs` to
   * 365 days; here a longer one is refused. A node that was started less than that ago then grants nothing, as it may have
   * lost a lease that still lasts: so nodes need not persist every write. Every client must say the same. Costs each
   * acquire an `INFO` on every node, and holds as long as no clock of a node is set forward. A server that does not tell
   * its uptime to scripts grants nothing.
   *
   * @default {nodes are trusted to keep their data}
   */
  readonly quarantineMs?: number | undefined;
}

/** The least node time-out where a silent node is one of several. */
const floorOfSeveralMs = 100;

/** A Worker may wait for six responses at once; one is left for the work that the lock is for. */
const mostNodesOnWorkers = 5;

/**
 * Creates a lock on several independent Redis masters, over TCP and HTTP in any mix. Sends nothing yet. A lease is held
 * once a quorum has granted it, so the lock goes on while a minority of the nodes is slow, silent or gone, and costs as
 * many requests as there are nodes. Over one node it is `createLock`.
 *
 * Promised: as for `createLock`, and fences that grow from holder to holder across all quorums as long as the nodes keep
 * their data. Not promised: anything once every node that two quorums share has forgotten a live lease or stepped its
 * clock. With a bare majority of 3 or 5 nodes a single one may be enough; a higher `quorum` makes it more, and `fence`
 * protects what checks it.
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
  options?: RedlockOptions,
  environment?: Environment,
): Lock {
  const distinct = new Set([clients].flat()); // which an untyped caller may have forgotten to put in a list
  const nodes = [...distinct].map((client, index) => createNode(checkClient(client), index + 1));
  const count = nodes.length;
  const least = majority(count);
  const { quorum = least, driftFactor = defaultDriftFactor, quarantineMs, leaseMs = 10_000 } = options ?? {};
  if (!count || count < clients.length) throw invalid("clients", clients.length, "one or more, each of them once");
  checkQuorum(quorum, least, count);
  checkDriftFactor(driftFactor);
  checkLeaseMs(leaseMs);
  if (quarantineMs !== undefined) checkDuration("quarantineMs", quarantineMs, leaseMs);
  const isOne = count === 1 && !quarantineMs;
  const parts = {
    nodes,
    quorum,
    driftFactor,
    floorMs: count > 1 ? floorOfSeveralMs : floorMs,
    longestMs: quarantineMs,
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
    isOne ? attemptsOnOne : attemptsOnQuorum,
  );
}
