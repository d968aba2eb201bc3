/**
 * One lock on one in-process Redis, under a virtual clock: every event, command and timer in sight, every fault at will.
 *
 * @module
 */
import { getEventListeners } from "node:events";
import { memoryClient } from "../../adapters/memory/index.ts";
import type { Command, CommandClient, Reply } from "../../src/command.ts";
import type { Environment } from "../../src/environment.ts";
import type { LeaseholdEvent } from "../../src/events.ts";
import type { Lease } from "../../src/lease.ts";
import { createLock } from "../../src/lock.ts";
import type { Lock, LockOptions } from "../../src/lock-methods.ts";
import { acquireScript } from "../../src/scripts/acquire.ts";
import { extendScript } from "../../src/scripts/extend.ts";
import { releaseScript } from "../../src/scripts/release.ts";
import { type Fault, type FaultyClient, faultyClient } from "./faulty-client.ts";
import { seededRandom, type VirtualClock, virtualEnvironment } from "./virtual-clock.ts";

/** What a script is called in the API. */
export type Verb = "acquire" | "extend" | "release" | "inspect";

/** What happens to the n-th command of each kind; after the last one nothing does, unless `always` says so. */
export type Faults = { readonly [kind in Verb]?: readonly (Fault | undefined)[] } & { readonly always?: Fault };

/** A lock and what is around it. */
export interface OneRedis {
  readonly env: Environment & { readonly clock: VirtualClock };
  readonly clock: VirtualClock;
  /** The Redis itself: what is read and written here meets no fault. */
  readonly redis: CommandClient;
  /** The way from the lock to it. */
  readonly client: FaultyClient;
  readonly lock: Lock;
  /** A lock of another process, with no faults on its way. */
  readonly other: Lock;
  readonly events: LeaseholdEvent[];
  run(...command: Command): Promise<Reply>;
  /** The verbs of the commands sent, in order. */
  verbs(): Verb[];
}

const scripts = { acquire: acquireScript, extend: extendScript, release: releaseScript };

/** Which script a command runs. */
export function verbOf([, source]: Command): Verb {
  const verbs = ["acquire", "extend", "release"] as const;
  return verbs.find((verb) => String(source).endsWith(scripts[verb].source)) ?? "inspect";
}

/** The token that a command is about. */
export function tokenOf([, , count, ...rest]: Command): string {
  return String(rest[Number(count)]);
}

/** Builds it. `faults` is asked about each command on its way: a function of it, or a list for each kind. */
export function oneRedis(
  options: LockOptions = {},
  faults: Faults | ((command: Command, place: number) => Fault | undefined) = {},
): OneRedis {
  const env = virtualEnvironment();
  const { clock } = env;
  const redis = memoryClient({}, env);
  const client = faultyClient(redis, clock, typeof faults === "function" ? faults : queued(faults));
  const events: LeaseholdEvent[] = [];
  return {
    env,
    clock,
    redis,
    client,
    events,
    lock: createLock(client, { observe: (event) => void events.push(event), ...options }, env),
    other: createLock(redis, {}, { ...env, random: seededRandom(2) }),
    run: (...command) => redis.execute(command),
    verbs: () => client.sent.map(verbOf),
  };
}

function queued({ always, ...lists }: Faults): (command: Command) => Fault | undefined {
  const counts = { acquire: 0, extend: 0, release: 0, inspect: 0 };
  return (command) => {
    const verb = verbOf(command);
    const place = counts[verb];
    counts[verb] += 1;
    const list = lists[verb] ?? [];
    return place < list.length ? list[place] : always;
  };
}

/** How `inspectLock` shows the token of a lease. */
export function shortened({ token }: { readonly token: string }): string {
  return `${token.slice(0, 8)}…`;
}

/** A signal that counts what listens to it. */
export function countingSignal(): { readonly controller: AbortController; readonly listeners: () => number } {
  const controller = new AbortController();
  return { controller, listeners: () => getEventListeners(controller.signal, "abort").length };
}

/** Starts a task of so long, or one that `end` ends, and gives its lease. */
export async function holding(
  { lock, clock }: { readonly lock: Lock; readonly clock: VirtualClock },
  ms: number = Infinity,
): Promise<{ lease: Lease; running: Promise<void>; end: () => void }> {
  let lease: Lease | undefined;
  let end = (): void => {};
  const running = lock.withLock("job", async (held) => {
    lease = held;
    await new Promise<void>((resolve) => {
      end = resolve;
      if (ms < Infinity) clock.after(ms, true, resolve);
    });
  });
  running.catch(() => {});
  while (lease === undefined) await clock.advance(1);
  return { lease, running, end };
}
