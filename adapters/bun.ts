/**
 * Bun's own Redis client behind the boundary.
 *
 * @module
 */
import { type CommandClient, field, isRedisText, type Reply, toReply, untilAborted } from "../src/command.ts";
import { LockError, plainError } from "../src/errors.ts";

/** What is asked of Bun's client: a shape, so that `Bun.redis`, a `RedisClient` and a Proxy around either will do. */
export interface BunRedis {
  send(command: string, args: string[]): Promise<unknown>;
}

/** Options of {@link bunClient}. */
export interface BunClientOptions {
  /**
   * How errors, events and `inspectLock` name this Redis; Bun's client does not tell its address.
   *
   * @default {"node 1" and so on}
   */
  readonly label?: string | undefined;
  /** First line of every script, such as `#!lua flags=allow-key-locking` where Upstash is reached by TCP. */
  readonly scriptHeader?: string | undefined;
}

/**
 * Sends commands through a client of Bun's, with the settings that it has.
 *
 * - The client stays the caller's: it is not closed here. Bun connects it at the first command.
 * - Bun keeps commands while it has no connection and tries to get one (`enableOfflineQueue`, `autoReconnect`). The
 *   caller's signal ends the waiting; a command that is kept still runs later.
 * - When `idleTimeout` (off by default) or `maxRetries` (20) has ended a connection, Bun never opens it again by itself, and
 *   every command fails at once with an error that says so: call the client's `connect()`, or make a new one.
 *
 * @throws LockError "config" when the object has no `send` method; it names the factory that fits where there is one
 *
 * @example
 * ```ts
 * import { RedisClient } from "bun";
 * import { createLock } from "leasehold";
 * import { bunClient } from "leasehold/bun";
 *
 * const redis = new RedisClient("redis://127.0.0.1:6379");
 * const lock = createLock(bunClient(redis, { label: "main" }));
 * ```
 */
export function bunClient(redis: BunRedis, options?: BunClientOptions): CommandClient {
  if (typeof field(redis, "send") !== "function") throw misfit(redis);
  const { label, scriptHeader } = options ?? {};
  return {
    label,
    scriptHeader,
    cachesScripts: true,
    async execute(command, { signal } = {}) {
      if (signal?.aborted) throw signal.reason;
      return untilAborted(send(redis, command.map(String)), signal);
    },
  };
}

async function send(redis: BunRedis, [name = "", ...args]: string[]): Promise<Reply> {
  try {
    return toReply(await redis.send(name, args));
  } catch (error) {
    throw plain(error);
  }
}

function plain(error: unknown): Error {
  // Said of every command once the client has given up, before anything is sent.
  if (error instanceof Error && error.message === "Connection has failed") {
    return new Error("Connection has failed, and Bun does not open it again: call connect(), or make a new client");
  }
  return plainError(error, isFromRedis);
}

function isFromRedis(error: Error): boolean {
  return field(error, "code") === "ERR_REDIS_SERVER_ERROR" || isRedisText(error.message); // credentials have a code of their own
}

function misfit(value: unknown): LockError {
  const has = (method: string): boolean => typeof field(value, method) === "function";
  let remedy = "pass Bun.redis or an instance of its RedisClient";
  if (has("sendCommand")) remedy = has("call") ? "wrap it with ioredisClient" : "wrap it with nodeRedisClient";
  else if (has("exec")) remedy = "wrap it with upstashClient";
  else if (has("execute")) remedy = "use it as it is";
  return new LockError("config", `Cannot use the client as one of Bun as it has no send method: ${remedy}`);
}
