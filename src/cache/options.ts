/**
 * The options of a cache and of its calls, checked before anything is sent.
 *
 * @module
 */
import type { Signal } from "../command.ts";
import type { WaitUntil } from "../context.ts";
import type { Observer } from "../events.ts";
import { checkDuration, checkFunction, checkLeaseMs, checkSignal, invalid } from "../validate.ts";
import type { Place } from "./context.ts";
import type { BuildContext, Wanted, Windows } from "./reader.ts";

/** Settings of a cache. */
export interface CacheOptions {
  /**
   * What the keys of all entries begin with. It must differ from that of a lock.
   *
   * @default {"cache"}
   */
  readonly prefix?: string | undefined;
  /** Receives every event. */
  readonly observe?: Observer | undefined;
  /**
   * Receives every read that may build, on hosts that freeze after the response: `(work) => ctx.waitUntil(work)`. So
   * those who wait elsewhere get their value although the request that builds it is over; and a caller that takes a
   * stale value gets it at once, while its build goes on. Without it such a caller waits for its own build, as a promise
   * that nobody keeps may never run. On a server that stays up, `() => {}` will do.
   */
  readonly waitUntil?: WaitUntil | undefined;
}

/** How long a value may be served. Redis keeps it a minute longer, with what it knows of how long a build takes. */
export interface StoreOptions {
  /** How long it is served without a question, in whole ms from when it is stored: 1 ms to 365 days. */
  readonly freshMs: number;
  /**
   * For how long after that it may be served while another builds. In a read: also whether this caller takes such a
   * value; 0 for never.
   *
   * @default {0}
   */
  readonly staleMs?: number | undefined;
  /**
   * For how long after `freshMs` it may be served where a build fails or is slow. In a read: also whether this caller
   * takes such a value; 0 for never.
   *
   * @default {0}
   */
  readonly errorMs?: number | undefined;
}

/** Settings of a read. */
export interface GetOptions extends StoreOptions {
  /**
   * How long a build keeps others from building, in ms. A build that takes longer is still stored if nobody has started
   * another; give it longer than a build takes.
   *
   * @default {10_000}
   */
  readonly leaseMs?: number | undefined;
  /**
   * How long to wait for another's build, in ms from the call; 0 never waits.
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

/** How long what a caller stores may be served. @throws LockError "config" */
export function checkStore({ freshMs, staleMs = 0, errorMs = 0 }: StoreOptions): Windows {
  checkDuration("freshMs", freshMs, 1);
  checkDuration("staleMs", staleMs);
  checkDuration("errorMs", errorMs);
  return { freshMs, staleMs, errorMs };
}

/** What a read asks for, with its defaults. @throws LockError "config" */
export function checkGet(
  place: Place & Pick<GetOptions, "waitUntil">,
  options: GetOptions,
  build: Build<unknown>,
): Wanted {
  const { leaseMs = 10_000, waitMs = 10_000, onRedisDown = "build", signal, waitUntil = place.waitUntil } = options;
  checkLeaseMs(leaseMs);
  checkDuration("waitMs", waitMs);
  checkSignal(signal);
  checkFunction("build", build);
  checkFunction("waitUntil", waitUntil, true);
  if (onRedisDown !== "build" && onRedisDown !== "throw") {
    throw invalid("onRedisDown", onRedisDown, '"build" or "throw"');
  }
  return { ...place, ...checkStore(options), waitMs, leaseMs, onRedisDown, signal, waitUntil, build };
}
