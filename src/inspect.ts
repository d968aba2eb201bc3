/**
 * inspectLock: who holds a lock on which node, until when, and with which fence. Reads only.
 *
 * @module
 */
import type { CommandClient } from "./command.ts";
import { type Environment, systemEnvironment } from "./environment.ts";
import { type LockState, stateOf } from "./inspect/state.ts";
import { lockKeys } from "./keys.ts";
import { createNodes } from "./node.ts";
import { askAll } from "./round.ts";
import { inspectScript } from "./scripts/inspect.ts";
import { checkName, checkPrefix, checkQuorum } from "./validate.ts";
import { majority } from "./validity.ts";

export type { LockState, LockVerdict, NodeState } from "./inspect/state.ts";

/** Settings of an inspection. */
export interface InspectOptions {
  /** @default {"lock"} */
  readonly prefix?: string | undefined;
  /**
   * How many nodes a holder needs: that of the Redlock that is looked at.
   *
   * @default {a majority: floor(N / 2) + 1}
   */
  readonly quorum?: number | undefined;
}

/** How long to wait for each node: longer than a lock would, since a diagnosis is asked for when something is slow. */
const timeoutMs = 2_500;

/**
 * Reads the state of a lock, on the path of its writes: a replica that is given as a node has no vote. Never decide
 * ownership by it: what it says may have ended on its way here.
 *
 * @throws LockError "config" for bad arguments; never for what a Redis or a network does
 *
 * @example
 * ```ts
 * import { createLock, inspectLock } from "leasehold";
 * import { memoryClient } from "leasehold/memory";
 *
 * const client = memoryClient();
 * const lease = await createLock(client).acquire("invoice:42");
 * const state = await inspectLock(client, "invoice:42");
 * console.log(state.verdict, state.fence === lease.fence); // held true
 * ```
 */
export async function inspectLock(
  clients: CommandClient | readonly CommandClient[],
  name: string,
  options?: InspectOptions,
  environment?: Environment,
): Promise<LockState> {
  const nodes = createNodes(clients);
  const least = majority(nodes.length);
  const { prefix = "lock", quorum = least } = options ?? {};
  checkQuorum(quorum, least, nodes.length);
  const keys = lockKeys(checkPrefix(prefix), checkName("name", name));
  const context = { env: environment ?? systemEnvironment(), nodes, floorMs: timeoutMs, waitUntil: undefined };
  const question = { script: inspectScript, keys: [keys.lock, keys.fence], args: [], leaseMs: timeoutMs };
  const { answers } = await askAll(context, question);
  const inOrder = [...answers].sort((a, b) => nodes.indexOf(a.from) - nodes.indexOf(b.from));
  return stateOf(inOrder, quorum);
}
