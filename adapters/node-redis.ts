/**
 * A client or pool of node-redis 5 or 6 behind the boundary, on RESP2 and RESP3.
 *
 * @module
 */
import {
  type CommandClient,
  field,
  isRedisText,
  type Reply,
  type Signal,
  toReply,
  untilAborted,
} from "../src/command.ts";
import { LockError, plainError } from "../src/errors.ts";

/** What is asked of node-redis: a shape, so that any modules, versions and protocols will do. */
export interface NodeRedis {
  sendCommand(
    args: string[],
    options?: { readonly abortSignal?: Signal; readonly typeMapping?: Record<never, never> },
  ): Promise<unknown>;
}

/** Options of {@link nodeRedisClient}. */
export interface NodeRedisClientOptions {
  /**
   * How errors, events and `inspectLock` name this Redis.
   *
   * @default {the host and port, or the socket's path, as far as node-redis tells}
   */
  readonly label?: string | undefined;
  /** First line of every script, such as `#!lua flags=allow-key-locking` where Upstash is reached by TCP. */
  readonly scriptHeader?: string | undefined;
}

/**
 * Sends commands through a node-redis client or pool, which its owner connects and closes, and listens to for errors.
 *
 * - A command that waits for a connection is taken back when the caller's signal aborts; one already written is not.
 * - node-redis leaves its `keyPrefix` out of plain commands: here it is put before the keys of EVAL and EVALSHA, and any
 *   other command is refused on such a client.
 * - A Sentinel fits as `{ sendCommand: (args, options) => sentinel.sendCommand(false, args, options) }`, and a cluster,
 *   for scripts, as `{ sendCommand: (args, options) => cluster.sendCommand(args[3], false, args, options) }`.
 *
 * @throws LockError "config" when the object has no `sendCommand` of this shape; it says what to pass instead
 *
 * @example
 * ```ts
 * import { createLock } from "leasehold";
 * import { nodeRedisClient } from "leasehold/node-redis";
 * import { createClient } from "redis";
 *
 * const redis = createClient({ url: "redis://127.0.0.1:6379" });
 * redis.on("error", (error) => console.error(error.message));
 * const lock = createLock(nodeRedisClient(redis)); // before the first acquire: await redis.connect()
 * ```
 */
export function nodeRedisClient(redis: NodeRedis, options?: NodeRedisClientOptions): CommandClient {
  checkShape(redis);
  const { label = addressOf(redis), scriptHeader } = options ?? {};
  return {
    label,
    scriptHeader,
    cachesScripts: true,
    async execute(command, { signal } = {}) {
      if (signal?.aborted) throw signal.reason;
      return untilAborted(send(redis, withKeyPrefix(redis, command.map(String)), signal), signal);
    },
  };
}

async function send(redis: NodeRedis, args: string[], signal: Signal | undefined): Promise<Reply> {
  try {
    // The empty type mapping replaces the client's own, which may turn integers into strings.
    return toReply(await redis.sendCommand(args, { typeMapping: {}, ...(signal && { abortSignal: signal }) }));
  } catch (error) {
    throw plainError(error, isFromRedis);
  }
}

function withKeyPrefix(redis: NodeRedis, args: string[]): string[] {
  const prefix = field(redis, "_keyPrefix"); // a string or a Buffer, from version 6 on
  if (prefix === undefined || `${prefix}` === "") return args;
  const [name = "", , count] = args;
  if (/^EVAL(SHA)?$/i.test(name)) {
    return args.map((arg, at) => (at >= 3 && at < 3 + Number(count) ? `${prefix}${arg}` : arg));
  }
  const reason = "node-redis leaves its keyPrefix out of all but scripts";
  throw new LockError("config", `Cannot send ${name} as ${reason}: current value is "${prefix}"`);
}

/** Told by class, whose name a minifier changes, or by text: that of Redis begins with a code in capitals. */
function isFromRedis(error: Error): boolean {
  return /^(SimpleError|BlobError)$/.test(error.constructor.name) || isRedisText(error.message);
}

function addressOf(redis: NodeRedis): string | undefined {
  const socket = field(field(redis, "options"), "socket");
  const [host = "localhost", port = 6379, path] = ["host", "port", "path"].map((name) => field(socket, name));
  if (typeof path === "string") return path;
  return socket === undefined ? undefined : `${host}:${port}`;
}

function checkShape(redis: NodeRedis): void {
  const has = (method: string): boolean => typeof field(redis, method) === "function";
  let problem: string | undefined;
  if (has("call")) problem = "it is one of ioredis: wrap it with ioredisClient";
  else if (!has("sendCommand") && has("exec")) problem = "it has no sendCommand method: wrap it with upstashClient";
  else if (!has("sendCommand") && has("execute")) problem = "it has no sendCommand method: use it as it is";
  else if (!has("sendCommand")) problem = "it has no sendCommand method: pass the result of createClient()";
  // A cluster takes (firstKey, isReadonly, args, options), a Sentinel (isReadonly, args, options).
  else if (redis.sendCommand.length > 2) problem = "it is a cluster or Sentinel: wrap it as nodeRedisClient documents";
  if (problem) throw new LockError("config", `Cannot use the client as one of node-redis as ${problem}`);
}
