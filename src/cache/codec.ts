/**
 * How a value becomes text and comes back.
 *
 * @module
 */
import { failure } from "../errors.ts";

/** A way to write values. Its prefix begins every payload, so that entries of another codec are misses, not garbage. */
export interface Codec {
  /** Begins with a letter, so that no client takes a payload for a number or JSON. */
  readonly prefix: string;
  encode(value: unknown): string | undefined;
  decode(text: string): unknown;
}

/** JSON: what has no form in it, such as `undefined` or a bigint, is refused. */
export const jsonCodec: Codec = {
  prefix: "j",
  encode: (value) => JSON.stringify(value),
  decode: (text) => JSON.parse(text),
};

/** The payload of a value. @throws LockError "config" when the codec has no form for it */
export function toPayload(codec: Codec, name: string, value: unknown): string {
  let text: string | undefined;
  let cause: unknown;
  try {
    text = codec.encode(value);
  } catch (error) {
    cause = error;
  }
  if (text !== undefined) return codec.prefix + text;
  throw failure("config", "store", name, `its codec has no form for the value: current value is ${kindOf(value)}`, {
    cause,
  });
}

/** The value of a payload: a new one at each call, so that no two readers share an object. */
export function fromPayload(codec: Codec, name: string, payload: string): unknown {
  try {
    return codec.decode(payload.slice(codec.prefix.length));
  } catch (cause) {
    throw failure("config", "read", name, "what is stored there is not of its codec: invalidate it", { cause });
  }
}

// Never the value itself: an error is printed where the cache's contents must not be.
function kindOf(value: unknown): string {
  return value === undefined ? "undefined" : `of type ${typeof value}`;
}
