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
import type { BuildContext, Wanted } from "./reader.ts";

/** Settings of a cache. */
export interface CacheOptions {
  /**
   * What the keys of all entries begin with. It must differ from that of a lock.
   *
   * @default {"cache"}
   */
  readonly prefix?: string | undefined;
  /**
   * How values are written. The package has `textCodec`, `bytesCodec` and `deflated` besides JSON.
   *
   * @default {JSON}
   */
  readonly codec?: Codec | undefined;
  /**
   * How long a value may be as its codec writes it, in UTF-16 units. A longer one is given to its caller, and not stored.
   *
   * @default {1_000_000}
   */
  readonly maxLength?: number | undefined;
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
   * How long `null`, which says that there is no such thing, is served instead, in ms; it is of no use afterwards.
   *
   * @default {freshMs}
   */
  readonly negativeMs?: number | undefined;
  /**
   * How long a build keeps others from building after the process that runs it has died, in ms. While the build runs,
   * its election is renewed.
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
   * When a build is slow, in ms: whoever takes a value as old as the one that is there (`errorMs`) is given it, and the
   * build goes on as long as somebody waits for it, or `waitUntil` keeps it.
   *
   * @default {hardTimeoutMs}
   */
  readonly softTimeoutMs?: number | undefined;
  /**
   * When a build that still runs has failed, in ms: its signal aborts, and others may build after the back-off.
   *
   * @default {maxHoldMs, which it cannot exceed}
   */
  readonly hardTimeoutMs?: number | undefined;
  /**
   * How long to wait for another's build, in ms from the call; 0 never waits.
   *
   * @default {10_000}
   */
  readonly waitMs?: number | undefined;
  /**
   * When Redis gives no definite answer: "build" without storing, one build at a time in this process, or
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

/** The least of each duration. */
const leastMs = {
  ...{ freshMs: 1, staleMs: 0, errorMs: 0, negativeMs: 0, leaseMs: 10, waitMs: 0 },
  ...{ maxHoldMs: 0, softTimeoutMs: 0, hardTimeoutMs: 0 },
};

/** What a caller asks for, with the defaults that hold everywhere. @throws LockError "config" */
export function checkOptions<Call extends Doing>(
  call: Call,
  options: Partial<GetOptions> = {},
  waitUntil?: WaitUntil,
): Call & Wanted {
  const defaults = { staleMs: 0, errorMs: 0, leaseMs: 10_000, waitMs: 10_000, onRedisDown: "build", waitUntil };
  const given = Object.entries(options).filter(([, value]) => value !== undefined);
  const wanted = { ...defaults, ...(Object.fromEntries(given) as unknown as Wanted), ...call };
  for (const [option, least] of Object.entries(leastMs)) {
    const value = wanted[option as keyof typeof leastMs];
    if (value !== undefined || least === 1) checkDuration(option, value as number, least);
  }
  checkSignal(wanted.signal);
  checkFunction("waitUntil", wanted.waitUntil, true);
  if (!/^(build|throw)$/.test(wanted.onRedisDown))
    throw invalid("onRedisDown", wanted.onRedisDown, '"build" or "throw"');
  return wanted;
}
