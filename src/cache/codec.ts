/**
 * How a value becomes a payload and comes back: as JSON, unless the cache has a codec of its own.
 *
 * @module
 */
import { failure } from "../errors.ts";

/** A way to write values as text. Both methods may be asynchronous. */
export interface Codec {
  /** Entries that a codec of another name has written are misses. */
  readonly name: string;
  /** Change it when what is written changes its form: entries of another version are misses. */
  readonly version?: number | undefined;
  /** Of a text, in UTF-16 units: a longer one is not stored. A build's value is given to those who waited; `set` rejects. */
  readonly maxLength?: number | undefined;
  /** The text of a value, well-formed: a lone surrogate has no form in UTF-8; undefined where it has none. */
  encode(value: unknown): string | undefined | PromiseLike<string | undefined>;
  /**
   * The value of a text: a new one at each call, so that no two readers share an object. A caller's `signal` and `waitMs`
   * do not end the waiting for it.
   */
  decode(text: string): unknown;
}

/**
 * JSON: what `JSON.stringify` has no text for, such as `undefined`, or refuses, as a bigint, is refused. What it makes
 * `null` of, such as NaN, is `null` to all readers.
 *
 * @example
 * ```ts
 * import { jsonCodec } from "leasehold";
 *
 * console.log(jsonCodec.encode({ cents: 1_999 })); // {"cents":1999}
 * ```
 */
export const jsonCodec: Codec = {
  name: "json",
  encode: (value) => JSON.stringify(value),
  decode: (text) => JSON.parse(text),
};

/** How the values of a cache are written. */
export interface Writing {
  readonly codec: Codec;
  /** What begins every payload: a letter, so that no client takes one for a number or JSON. */
  readonly prefix: string;
}

/** The payload of a value. @throws LockError "config" when the codec has no form for it */
export async function toPayload({ codec, prefix }: Writing, name: string, value: unknown): Promise<string> {
  const text = await (async () => codec.encode(value))().catch(() => undefined);
  if (typeof text === "string") return prefix + text;
  // Never the value itself: an error is printed where the cache's contents must not be.
  throw failure("config", "store", name, `its codec cannot write it: ${typeof value}`);
}

/** Whether a payload is longer than its codec wants to have stored; never where that says nothing. */
export function isTooLong({ codec, prefix }: Writing, payload: string): boolean {
  return payload.length - prefix.length > (codec.maxLength as number);
}

/** The value of a payload. @throws LockError "config" when the codec cannot read it, which it has not written */
export async function fromPayload({ codec, prefix }: Writing, name: string, payload: string): Promise<unknown> {
  try {
    return await codec.decode(payload.slice(prefix.length));
  } catch {
    // Without the text, which is a value, and without the cause, which may quote it.
    throw failure("config", "read", name, "its codec cannot read it: invalidate it");
  }
}
