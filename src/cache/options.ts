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
import type { BuildContext, Wanted } from "./reader.ts";

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
   * those who wait elsewhere get their value although the request that builds it is over.
   */
  readonly waitUntil?: WaitUntil | undefined;
}

/** How long a value may be served. Redis keeps it a minute longer, with what it knows of how long a build takes. */
export interface StoreOptions {
  /** How long it is served without a question, in whole ms from when it is stored: 1 ms to 365 days. */
  readonly freshMs: number;
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

/** @throws LockError "config" */
export function checkFresh(freshMs: number): void {
  checkDuration("freshMs", freshMs, 1);
}

/** What a read asks for, with its defaults. @throws LockError "config" */
export function checkGet(
  place: Place & Pick<GetOptions, "waitUntil">,
  options: GetOptions,
  build: Build<unknown>,
): Wanted {
  const { freshMs, leaseMs = 10_000, waitMs = 10_000, onRedisDown = "build" } = options;
  const { signal, waitUntil = place.waitUntil } = options;
  checkLeaseMs(leaseMs);
  checkDuration("waitMs", waitMs);
  checkSignal(signal);
  checkFunction("build", build);
  checkFunction("waitUntil", waitUntil, true);
  if (onRedisDown !== "build" && onRedisDown !== "throw") {
    throw invalid("onRedisDown", onRedisDown, '"build" or "throw"');
  }
  checkFresh(freshMs);
  return { ...place, freshMs, waitMs, leaseMs, onRedisDown, signal, waitUntil, build };
}
