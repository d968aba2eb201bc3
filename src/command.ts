/**
 * The boundary between the algorithms and any Redis: one method, four kinds of reply, one error with a meaning.
 *
 * @module
 */

/** The runtime's own `AbortSignal`, or its least shape where no library declares one. */
export type Signal = typeof globalThis extends { AbortSignal: { prototype: infer S } }
  ? S
  : // Workers' types declare it as a class, which `globalThis` has not: what `fetch` takes is the same.
    typeof globalThis extends { fetch(input: never, init?: { signal?: infer S | null }): unknown }
    ? S
    : {
        readonly aborted: boolean;
        readonly reason: unknown;
        addEventListener(type: "abort", listener: () => void, options?: { once: boolean }): void;
        removeEventListener(type: "abort", listener: () => void): void;
      };

/** A Redis reply as every client gives it: never a boolean, a bigint, a buffer or a map. */
export type Reply = string | number | null | readonly Reply[];

/** One command with its arguments, such as `["SET", "key", "value", "PX", 1000]`. */
export type Command = readonly (string | number)[];

/** Options of a single command. */
export interface ExecuteOptions {
  /** Ends the waiting for this command's reply; the command itself may still run. */
  readonly signal?: Signal | undefined;
}

/** One Redis, over TCP or HTTP. Knows nothing about locks. */
export interface CommandClient {
  /**
   * Sends one command, once. Rejects with a {@link ReplyError} when Redis itself answered "error", and with anything
   * else when the outcome is unknown. Never parses values. The caller's signal is its time-out.
   */
  execute(command: Command, options?: ExecuteOptions): Promise<Reply>;
  /** How errors, events and `inspectLock` name this Redis, such as "eu-west". Never holds credentials. */
  readonly label?: string | undefined;
  /** First line of every script here, such as `#!lua flags=allow-key-locking` on Upstash. */
  readonly scriptHeader?: string | undefined;
  /** True where a connection is kept, so that EVALSHA pays. HTTP clients always send EVAL: one request, never two. */
  readonly cachesScripts?: boolean | undefined;
}

/**
 * Redis answered with an error. Recognise it with {@link isReplyError}: it may come from another copy of this package.
 *
 * The message is Redis' own text. It is never the foreign client's error object, which may carry the whole command.
 *
 * @example
 * ```ts
 * import { ReplyError } from "leasehold";
 *
 * console.log(new ReplyError("OOM command not allowed when used memory > 'maxmemory'.").code); // OOM
 * ```
 */
export class ReplyError extends Error {
  override readonly name = "ReplyError";
  /** The first word of the error where that is a code, such as "OOM"; also found inside a wrapped text; else "ERR". */
  declare readonly code: string;
  /** How long the server asked not to be called, in ms, where it said so (HTTP 429 with Retry-After). */
  declare readonly retryAfterMs?: number;

  constructor(message: string, options: { code?: string | undefined; retryAfterMs?: number | undefined } = {}) {
    super(message);
    this.code = options.code ?? errorCode.exec(message)?.[1] ?? "ERR";
    if (options.retryAfterMs) this.retryAfterMs = options.retryAfterMs;
  }
}

/**
 * Whether an error is Redis' own answer, told by name and code so that two copies of the package agree.
 *
 * @example
 * ```ts
 * import { isReplyError } from "leasehold";
 * import { memoryClient } from "leasehold/memory";
 *
 * const error = await memoryClient().execute(["NONE"]).catch((reason: unknown) => reason);
 * console.log(isReplyError(error) && error.code); // ERR
 * ```
 */
export function isReplyError(error: unknown): error is ReplyError {
  return isCoded(error, "ReplyError");
}

/** Whether an error has this name and a code: how the errors here are told, whichever copy of the package made them. */
export function isCoded(error: unknown, name: string): error is Error & { readonly code: string } {
  return Object(error).name === name && typeof Object(error).code === "string";
}

// At the start, behind "ERR", or inside the text of a failed script or a proxy: "ERR Error running script: -OOM command".
const errorCode = /(?:^-?(?:ERR )?|: -?| -)(?!ERR\b)([A-Z]{3}[A-Z\d_]*)\b/;

/**
 * Makes any client's reply a {@link Reply}: the same for RESP2, RESP3 and JSON.
 *
 * @throws TypeError when the value is none that Redis can have sent; its outcome is then unknown
 */
export function toReply(value: unknown): Reply {
  if (value === null || typeof value === "string" || typeof value === "number") return value;
  if (typeof value === "boolean") return Number(value);
  if (typeof value === "bigint") return Number.isSafeInteger(Number(value)) ? Number(value) : `${value}`;
  if (Array.isArray(value)) return value.map(toReply);
  if (value instanceof Uint8Array) return new TextDecoder().decode(value);
  throw new TypeError(`Cannot read a reply of type ${typeof value}`);
}

/**
 * Settles as the promise does, or rejects with the signal's reason as soon as it aborts: a time-out for clients that
 * have none of their own. The command itself is not recalled.
 */
export function untilAborted<T>(promise: Promise<T>, signal: Signal | undefined): Promise<T> {
  return new Promise<T>((resolve, reject) => {
    const stop = onAbort(signal, () => reject(signal?.reason));
    void promise.then(resolve, reject).then(stop);
  });
}

/** Calls back once the signal aborts, at once where it has. Returns what ends the listening. */
export function onAbort(signal: Signal | undefined, callback: () => void): () => void {
  if (signal?.aborted) callback();
  else signal?.addEventListener("abort", callback, { once: true });
  return () => signal?.removeEventListener("abort", callback);
}

/** A property of an object of any kind, undefined where there is neither: for what a foreign client may have. */
export function field(value: unknown, name: string): unknown {
  return typeof value === "object" && value !== null ? Reflect.get(value, name) : undefined;
}

/** Whether a text is Redis' own: it begins with a code in capitals. Classes have names too, but a minifier changes them. */
export function isRedisText(text: string): boolean {
  return /^[A-Z]{3}[A-Z\d_]* /.test(text);
}
