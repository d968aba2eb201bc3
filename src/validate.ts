/**
 * Checks of names, durations, counts and clients, made before anything is sent.
 *
 * @module
 */
import type { CommandClient, Signal } from "./command.ts";
import { LockError } from "./errors.ts";

const longestMs = 365 * 86_400_000;

/** A duration in whole ms from `least` to 365 days. */
export function checkDuration(option: string, value: number, least = 0): number {
  if (Number.isInteger(value) && value >= least && value <= longestMs) return value;
  throw invalid(option, value, `an integer of ms from ${least} to ${longestMs}`);
}

/** The length of a lease: from 10 ms, below which no round trip fits, to 365 days. */
export function checkLeaseMs(value: number): number {
  return checkDuration("leaseMs", value, 10);
}

/** A name of a lock or key of a cache: a non-empty string that has a form in UTF-8. */
export function checkName(option: string, value: string): string {
  if (typeof value !== "string" || value === "") throw invalid(option, value, "a non-empty string");
  try {
    encodeURIComponent(value); // throws on a lone surrogate, which two clients would send as different bytes
  } catch {
    throw invalid(option, value, "a string without lone surrogates");
  }
  return value;
}

/** The prefix of all keys: non-empty, and free of what would move or hide the hash tag. */
export function checkPrefix(value: string): string {
  if (/[{}%]/.test(checkName("prefix", value))) throw invalid("prefix", value, "a string without { } or %");
  return value;
}

/** A callback, such as a task or a build. */
export function checkFunction(option: string, value: unknown): void {
  if (typeof value !== "function") throw invalid(option, value, "a function");
}

/** An `AbortSignal` of any realm, or none. */
export function checkSignal(value: Signal | undefined): void {
  if (value === undefined) return;
  const signal: Partial<Signal> | null = typeof value === "object" ? value : null;
  if (typeof signal?.aborted !== "boolean" || typeof signal.addEventListener !== "function") {
    throw invalid("signal", value, "an AbortSignal");
  }
}

// Told by the method that only this client has; ioredis comes first, as it has a sendCommand as well.
const factories = {
  call: "ioredisClient(client)",
  sendCommand: "nodeRedisClient(client)",
  exec: "upstashClient(client)",
  send: "bunClient(client)",
};

/** A client behind the boundary; a raw foreign one is told which factory to pass through. */
export function checkClient(client: CommandClient): CommandClient {
  const has = (method: string): boolean =>
    typeof client === "object" && client !== null && typeof Reflect.get(client, method) === "function";
  if (has("execute")) return client;
  const factory = Object.entries(factories).find(([method]) => has(method))?.[1] ?? "restClient({ url, token })";
  throw new LockError("config", `Cannot use the client as it has no execute method: wrap it, as in ${factory}`);
}

/** A "config" error in the one grammar. */
export function invalid(option: string, value: unknown, expected: string): LockError {
  return new LockError("config", `Cannot use ${option} as it must be ${expected}: current value is ${shown(value)}`);
}

function shown(value: unknown): string {
  if (typeof value === "string") return JSON.stringify(value.length > 100 ? `${value.slice(0, 99)}…` : value);
  if (typeof value === "object" && value !== null) return Array.isArray(value) ? "an array" : "an object";
  return typeof value === "function" ? "a function" : String(value);
}
