/**
 * Several Redis masters in process that know nothing of each other, under one virtual clock, and a Redlock over them with
 * any fault on its way to any node.
 *
 * @module
 */
import { memoryClient } from "../../adapters/memory/index.ts";
import type { Command, CommandClient, Reply } from "../../src/command.ts";
import type { Environment } from "../../src/environment.ts";
import type { LeaseholdEvent, Observer } from "../../src/events.ts";
import { createLock } from "../../src/lock.ts";
import type { Lock, LockOptions } from "../../src/lock-methods.ts";
import { createRedlock, type RedlockOptions } from "../../src/redlock.ts";
import { proposeScript } from "../../src/scripts/propose.ts";
import { type Fault, faultyClient } from "../support/faulty-client.ts";
import { type Verb, verbOf as verbOnOne } from "../support/one-redis.ts";
import { offClock, seededRandom, type VirtualClock, virtualEnvironment } from "../support/virtual-clock.ts";

export const key = "lock:{job}";

/** One command on its way: which verb, to which node from 0, and how often that verb went there before. */
export interface OnItsWay {
  readonly verb: Verb;
  readonly node: number;
  readonly place: number;
  readonly command: Command;
}

export interface World {
  readonly env: Environment & { readonly clock: VirtualClock };
  readonly clock: VirtualClock;
  readonly lock: Lock;
  /** A lock of another process, with no faults on its way. */
  readonly other: Lock;
  readonly events: LeaseholdEvent[];
  /** The nodes themselves: what is read and written here meets no fault. */
  readonly nodes: readonly CommandClient[];
  /** What the lock has sent, in order. */
  readonly sent: (OnItsWay & { readonly at: number })[];
  /** Runs a command on every node. */
  run(...command: Command): Promise<Reply[]>;
  /** What the lock has sent of a verb, to all nodes or to one. */
  sentOf(verb: Verb, node?: number): World["sent"];
  types(): string[];
  /** The verbs that were sent to each node, in order. */
  verbs(): Verb[][];
  /** Steps the wall clock of the lock's own machine: those of the nodes stay. */
  stepWall(ms: number): void;
  /** Steps the wall clocks of all nodes: that of the lock's own machine stays. */
  stepNodes(ms: number): void;
}

/** Which fault a command meets on its way. */
export type FaultOf = (sent: OnItsWay) => Fault | undefined;

export function world(count: number, options: RedlockOptions = {}, fault?: FaultOf): World {
  return around(count, (clients, env, observe) => createRedlock(clients, { observe, ...options }, env), fault);
}

/** Each kind of lock in a world of its own, for what both must keep to. */
export const bothLocks: readonly [name: string, build: (options?: LockOptions, fault?: FaultOf) => World][] = [
  [
    "createLock()",
    (options, fault) =>
      around(1, ([client], env, observe) => createLock(client as CommandClient, { observe, ...options }, env), fault),
  ],
  ["createRedlock() over 3", (options, fault) => world(3, options, fault)],
];

function around(
  count: number,
  create: (clients: readonly CommandClient[], env: Environment, observe: Observer) => Lock,
  fault: FaultOf = () => undefined,
): World {
  const env = virtualEnvironment();
  const { clock } = env;
  const [ownClock, nodesClock] = [offClock(clock), offClock(clock)];
  const nodes = Array.from({ length: count }, () => memoryClient({}, { clock: nodesClock }));
  const sent: World["sent"] = [];
  const events: LeaseholdEvent[] = [];
  const sentOf = (verb: Verb, node?: number): World["sent"] =>
    sent.filter((one) => one.verb === verb && (node === undefined || one.node === node));
  const clients = nodes.map((client, node) =>
    faultyClient(client, clock, (command) => {
      const verb = verbOf(command);
      const one = { verb, node, place: sentOf(verb, node).length, command };
      sent.push({ ...one, at: clock.monotonic });
      return fault(one);
    }),
  );
  return {
    env,
    clock,
    nodes,
    sent,
    sentOf,
    events,
    lock: create(clients, { ...env, clock: ownClock }, (event) => void events.push(event)),
    other: createRedlock(nodes, {}, { ...env, random: seededRandom(2) }),
    run: (...command) => Promise.all(nodes.map((node) => node.execute(command))),
    types: () => events.map(({ type }) => type),
    verbs: () => nodes.map((_, node) => sent.filter((one) => one.node === node).map(({ verb }) => verb)),
    stepWall: ownClock.step,
    stepNodes: nodesClock.step,
  };
}

/** The verb of a command; a proposal is an acquire. */
export function verbOf(command: Command): Verb {
  return String(command[1]).endsWith(proposeScript.source) ? "acquire" : verbOnOne(command);
}

/** The fence that an acquire proposes. */
export function proposalOf([, , count, ...rest]: Command): number {
  return Number(rest[Number(count) + 2]);
}
