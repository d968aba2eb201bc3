/**
 * Checks of names, durations, counts and clients, made before anything is sent.
 *
 * @module
 */
import type { CommandClient, Signal } from "./command.ts";
import { configError, type LockError } from "./errors.ts";

/** A duration in whole ms from `least` to `most`, which is 365 days. */
export function checkDuration(option: string, value: number, least = 0, most = 31_536_000_000): void {
  const ok = Number.isInteger(value) && value >= least && value <= most;
  check(ok, option, value, `an integer of ms from ${least} to ${most}`);
}

/** The length of a lease: from 10 ms, below which no round trip fits, to 365 days or what the lock allows. */
export function checkLeaseMs(value: number, most?: number): void {
  checkDuration("leaseMs", value, 10, most);
}

/** A name of a lock or key of a cache: a non-empty string that has a form in UTF-8. */
export function checkName(option: string, value: string): string {
  // Two clients would send a lone surrogate (Unicode category Cs) as different bytes.
  const ok = typeof value === "string" && /^\P{Cs}+$/u.test(value);
  check(ok, option, value, "non-empty and well-formed");
  return value;
}

/** The prefix of all keys: a name, and free of what would move or hide the hash tag. */
export function checkPrefix(value: string): string {
  check(!/[{}%]/.test(checkName("prefix", value)), "prefix", value, "free of { } and %");
  return value;
}

/** How many of so many nodes a holder needs: a majority at least. */
export function checkQuorum(value: number, least: number, count: number): void {
  const ok = Number.isInteger(value) && value >= least && value <= count;
  check(ok, "quorum", value, `an integer from ${least} to ${count}`);
}

/** By which part of a duration two clocks may disagree. */
export function checkDriftFactor(value: number): void {
  check(typeof value === "number" && value >= 0 && value < 1, "driftFactor", value, "from 0 up to 1");
}

/** A callback, such as a task or a build. */
export function checkFunction(option: string, value: unknown, optional = false): void {
  check(typeof value === "function" || (optional && value === undefined), option, value, "a function");
}

/** An `AbortSignal` of any realm, or none. */
export function checkSignal(value: Signal | undefined): void {
  check(value === undefined || typeof value?.removeEventListener === "function", "signal", value, "an AbortSignal");
}

/** A client behind the boundary; a raw foreign one has to pass through a factory. */
export function checkClient(client: CommandClient): CommandClient {
  const { execute, sendCommand } = Object(client);
  if (typeof execute === "function" && !sendCommand) return client; // a pool of node-redis has both
  throw configError("the client", "one with execute, such as restClient or ioredisClient makes", typeof client);
}

/** The "config" error of an argument that is not what was expected. */
export function invalid(option: string, value: unknown, expected: string): LockError {
  // Of an object only what it is: it may have no way to become a string, or too much to say.
  const shown =
    typeof value === "string" ? JSON.stringify(value) : String(Object(value) === value ? typeof value : value);
  return configError(option, expected, shown.slice(0, 100));
}

function check(ok: boolean, option: string, value: unknown, expected: string): void {
  if (!ok) throw invalid(option, value, expected);
}
