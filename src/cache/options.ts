/**
 * The options of a cache and of its calls, checked before anything is sent.
 *
 * @module
 */
import type { Signal } from "../command.ts";
import type { WaitUntil } from "../context.ts";
import type { Observer } from "../events.ts";
import { checkDuration, checkFunction, checkSignal, invalid } from "../validate.ts";
import type { Codec } from "./codec.ts";
import type { Doing } from "./context.ts";
import type { BuildContext, CheckedOptions } from "./reader.ts";

/** Settings of a cache. */
export interface CacheOptions {
  /**
   * What the keys of all entries begin with. It must differ from that of a lock.
   *
   * @default {"cache"}
   */
  readonly prefix?: string | undefined;
  /**
   * How values are written. The package has `textCodec`, `bytesCodec`, `deflated` and `capped` besides JSON.
   *
   * @default {JSON}
   */
  readonly codec?: Codec | undefined;
  /** Receives every event. */
  readonly observe?: Observer | undefined;
  /**
   * Receives every read that may build, on hosts that freeze after the response: `(work) => ctx.waitUntil(work)`. So
   * those who wait elsewhere get their value although the request that builds it is over; and a caller that takes an old
   * value gets it at once, while its build goes on. Without it such a caller waits for its own build, as a promise that
   * nobody keeps may never run. On a server that stays up, `() => {}` will do.
   */
  readonly waitUntil?: WaitUntil | undefined;
}

/** How long a value may be served. Redis keeps it a minute longer, with what it knows of how long a build takes. */
export interface StoreOptions {
  /** How long it is served without a question, in whole ms from when it is stored: 1 ms to 365 days. */
  readonly freshMs: number;
  /**
   * For how long after that it may be served while one caller builds, in ms. In a read: how old a value this caller
   * takes; one that was stored for less is gone before.
   *
   * @default {0}
   */
  readonly staleMs?: number | undefined;
  /**
   * For how long after `freshMs` it may be served where a build fails or is slow, in ms. In a read: how old a value this
   * caller then takes.
   *
   * @default {0}
   */
  readonly errorMs?: number | undefined;
}

/** Settings of a read. */
export interface GetOptions extends StoreOptions {
  /**
   * How long a `null` that is built, and says that there is no such thing, is served, in ms. It is of no use afterwards,
   * so nobody is given it as an old value.
   *
   * @default {freshMs}
   */
  readonly negativeMs?: number | undefined;
  /**
   * How long a build keeps others from building after the process that runs it has died, in ms. While the build runs,
   * its election is renewed; but those who wait look again at each end of a lease, so one longer than the build is cheapest.
   *
   * @default {10_000}
   */
  readonly leaseMs?: number | undefined;
  /**
   * For how long in all an election is renewed, in ms. A build that runs for longer has failed.
   *
   * @default {60_000; 25_000 with waitUntil, as hosts end such work after 30 s; leaseMs if that is more}
   */
  readonly maxHoldMs?: number | undefined;
  /**
   * When a build is slow, in ms from the call, whoever builds: one more request looks for a value of the age that this
   * caller takes where a build fails (`errorMs`). The build goes on as long as somebody waits for it, or `waitUntil`
   * keeps it.
   *
   * @default {never}
   */
  readonly softTimeoutMs?: number | undefined;
  /**
   * When a build that still runs has failed, in ms: its signal aborts, and others may build after the back-off.
   *
   * @default {maxHoldMs, which it cannot exceed}
   */
  readonly hardTimeoutMs?: number | undefined;
  /**
   * How long to wait for another's build, in ms from the call; 0 never waits. A request under way is waited for as well:
   * up to two tries of 2.5 s where Redis does not answer.
   *
   * @default {10_000}
   */
  readonly waitMs?: number | undefined;
  /**
   * When Redis gives no definite answer: "build" without storing, one build at a time for a key in this process, or
   * "throw" the error "unavailable".
   *
   * @default {"build"}
   */
  readonly onRedisDown?: "build" | "throw" | undefined;
  /** Ends this caller's waiting with "aborted". A build goes on as long as somebody else in this process waits for it. */
  readonly signal?: Signal | undefined;
  /** @default {the cache's waitUntil} */
  readonly waitUntil?: WaitUntil | undefined;
}

/** Makes a value: from the database, an API, or wherever it comes from. */
export type Build<T> = (context: BuildContext) => T | PromiseLike<T>;

/** Of each duration its least, and its default where that holds everywhere. */
const durations: Readonly<Record<string, readonly [least: number, usual?: number]>> = {
  freshMs: [1],
  staleMs: [0, 0],
  errorMs: [0, 0],
  negativeMs: [0],
  leaseMs: [10, 10_000],
  waitMs: [0, 10_000],
  maxHoldMs: [0],
  softTimeoutMs: [0],
  hardTimeoutMs: [0],
};

/** What a caller asks for, with the defaults that hold everywhere. @throws LockError "config" */
export function checkOptions<Call extends Doing>(
  call: Call,
  options: Partial<GetOptions> | undefined,
  waitUntil?: WaitUntil,
): Call & CheckedOptions {
  const wanted = { ...options, ...call } as Call & {
    -readonly [Option in keyof CheckedOptions]: CheckedOptions[Option];
  };
  wanted.onRedisDown ??= "build";
  wanted.waitUntil ??= waitUntil;
  for (const [name, [least, usual]] of Object.entries(durations)) {
    const option = name as "leaseMs";
    wanted[option] ??= usual as number;
    if (least === 1 || wanted[option] !== undefined) checkDuration(option, wanted[option], least);
  }
  checkSignal(wanted.signal);
  checkFunction("waitUntil", wanted.waitUntil, true);
  if (wanted.onRedisDown !== "build" && wanted.onRedisDown !== "throw")
    throw invalid("onRedisDown", wanted.onRedisDown, '"build" or "throw"');
  return wanted;
}
