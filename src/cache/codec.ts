/**
 * How a value becomes a payload and comes back: as JSON.
 *
 * @module
 */
import { failure } from "../errors.ts";

/** Begins every payload, so that no client takes one for JSON or a number, and one of another codec is a miss. */
export const prefix = "j";

/** The payload of a value. @throws LockError "config" when it has no form in JSON, as `undefined` and a bigint */
export function toPayload(name: string, value: unknown): string {
  let json: string | undefined;
  let cause: unknown;
  try {
    json = JSON.stringify(value);
  } catch (error) {
    cause = error;
  }
  // Never the value itself: an error is printed where the cache's contents must not be.
  if (json === undefined)
    throw failure("config", "store", name, `JSON has no form for a value of type ${typeof value}`, { cause });
  return prefix + json;
}

/**
 * The value of a payload: a new one at each call, so that no two readers share an object.
 *
 * @throws LockError "config" when it is no JSON, which none of this package has written
 */
export function fromPayload(name: string, payload: string): unknown {
  try {
    return JSON.parse(payload.slice(prefix.length));
  } catch {
    throw failure("config", "read", name, "its entry holds no JSON: invalidate it"); // without the text, which is a value
  }
}
