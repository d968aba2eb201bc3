/**
 * Any ioredis 5 or 6 behind the boundary: one server, Sentinel or Cluster.
 *
 * @module
 */
import {
  type Command,
  type CommandClient,
  field,
  isRedisText,
  type Reply,
  ReplyError,
  toReply,
  untilAborted,
} from "../src/command.ts";
import { LockError, plainError } from "../src/errors.ts";

/** What is asked of ioredis: a shape, so that a Cluster, a second installed copy and a Proxy will do. */
export interface Ioredis {
  call(command: string, ...args: (string | number)[]): Promise<unknown>;
}

/** Options of {@link ioredisClient}. */
export interface IoredisClientOptions {
  /**
   * How errors, events and `inspectLock` name this Redis.
   *
   * @default {the host and port, the socket's path, the name of the Sentinel group, or "cluster", as far as ioredis tells}
   */
  readonly label?: string | undefined;
  /** First line of every script, such as `#!lua flags=allow-key-locking` where Upstash is reached by TCP. */
  readonly scriptHeader?: string | undefined;
}

/**
 * Sends commands through an ioredis instance with the settings that it has, `keyPrefix` included.
 *
 * - The instance stays the caller's: it is neither connected nor closed here, and its listeners are left alone.
 * - ioredis may repeat a command after a lost connection (`autoResendUnfulfilledCommands`), and keeps commands while it
 *   has none (`enableOfflineQueue`). The caller's signal ends the waiting; a command that is kept still runs later.
 * - A cluster of ioredis 5 with `enableAutoPipelining` needs `autoPipeliningIgnoredCommands: ["EVAL", "EVALSHA"]`.
 *
 * @throws LockError "config" when the object has no `call` method; it names the factory that fits where there is one
 *
 * @example
 * ```ts
 * import { Redis } from "ioredis";
 * import { createLock } from "leasehold";
 * import { ioredisClient } from "leasehold/ioredis";
 *
 * const redis = new Redis({ host: "127.0.0.1", lazyConnect: true });
 * redis.on("error", (error) => console.error(error.message));
 * const lock = createLock(ioredisClient(redis));
 * ```
 */
export function ioredisClient(redis: Ioredis, options?: IoredisClientOptions): CommandClient {
  if (typeof field(redis, "call") !== "function") throw misfit(redis);
  const { label = addressOf(redis), scriptHeader } = options ?? {};
  return {
    label,
    scriptHeader,
    cachesScripts: true,
    async execute(command, { signal } = {}) {
      if (signal?.aborted) throw signal.reason;
      return untilAborted(send(redis, command), signal);
    },
  };
}

async function send(redis: Ioredis, [name, ...args]: Command): Promise<Reply> {
  // ioredis looks replies up by the command's name in a plain object, and dies of one that every object has.
  if (String(name) in {}) throw new ReplyError(`ERR unknown command '${name}'`);
  try {
    return toReply(await redis.call(String(name), ...args));
  } catch (error) {
    throw plain(error);
  }
}

function plain(error: unknown): Error {
  // Said before anything is sent, by clusters of ioredis 5 with automatic pipelining: redis/ioredis#2109.
  if (error instanceof Error && error.message.startsWith("All keys in the pipeline should belong to the same slots")) {
    const remedy = 'set autoPipeliningIgnoredCommands to ["EVAL", "EVALSHA"], or update to ioredis 6';
    return new LockError("config", `Cannot send scripts as this cluster pipelines them by their hash: ${remedy}`);
  }
  return plainError(error, isFromRedis);
}

/** The name is that of the class, which a minifier changes; the text of Redis begins with a code in capitals. */
function isFromRedis({ name, message }: Error): boolean {
  return name === "ReplyError" || isRedisText(message);
}

function addressOf(redis: Ioredis): string | undefined {
  if (field(redis, "isCluster") === true) return "cluster";
  const options = field(redis, "options");
  const [host, port, path, group] = ["host", "port", "path", "name"].map((name) => field(options, name));
  if (Array.isArray(field(options, "sentinels"))) return typeof group === "string" ? group : undefined;
  if (typeof path === "string") return path;
  return typeof host === "string" ? `${host}:${port}` : undefined;
}

function misfit(value: unknown): LockError {
  const has = (method: string): boolean => typeof field(value, method) === "function";
  let remedy = "pass an instance of ioredis";
  if (has("sendCommand")) remedy = "wrap it with nodeRedisClient";
  else if (has("exec")) remedy = "wrap it with upstashClient";
  else if (has("execute")) remedy = "use it as it is";
  return new LockError("config", `Cannot use the client as one of ioredis as it has no call method: ${remedy}`);
}
