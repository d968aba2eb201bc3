/**
 * An in-process Redis behind the boundary: for tests, for local work, and for programs of a single process.
 *
 * @module
 */
import { systemClock } from "../../src/clock.ts";
import type { CommandClient } from "../../src/command.ts";
import type { Environment } from "../../src/environment.ts";
import { run } from "./commands.ts";
import { Keyspace } from "./keyspace.ts";

/** Options of {@link memoryClient}. */
export interface MemoryClientOptions {
  /**
   * How errors, events and `inspectLock` name this Redis.
   *
   * @default {"node 1" and so on, by its place in a Redlock}
   */
  readonly label?: string | undefined;
  /**
   * First line of every script. It changes nothing here.
   *
   * @default {none}
   */
  readonly scriptHeader?: string | undefined;
}

/**
 * A Redis of its own in this process, empty at first. Each command runs to its end when it is sent; its reply comes in a
 * later microtask. Replies and errors are those of Redis 7.
 *
 * - Commands: PING, ECHO, TIME, DBSIZE, FLUSHALL, DEL, UNLINK, EXISTS, TYPE, PTTL, TTL, PEXPIRE, GET, MGET, SET (with NX, XX,
 *   GET, EX, PX), INCR, INCRBY, HSET, HGET, HGETALL, HDEL, RPUSH, EVAL. Any other is an unknown command.
 * - EVAL runs the scripts of this package and no other, with any header line; EVALSHA knows none.
 * - Nothing is kept beyond the process, and nothing is shared between two clients: two processes need a real Redis.
 *
 * @param environment for tests and simulators: its wall clock is the server's
 *
 * @example
 * ```ts
 * import { createLock } from "leasehold";
 * import { memoryClient } from "leasehold/memory";
 *
 * const lock = createLock(memoryClient());
 * await lock.withLock("invoice:42", async (lease) => console.log(lease.fence));
 * ```
 */
export function memoryClient(options?: MemoryClientOptions, environment?: Pick<Environment, "clock">): CommandClient {
  const { label, scriptHeader } = options ?? {};
  const redis = new Keyspace();
  return {
    label,
    scriptHeader,
    async execute(command, { signal } = {}) {
      if (signal?.aborted) throw signal.reason;
      redis.nowUs = Math.floor((environment?.clock ?? systemClock).now().wall * 1_000);
      return run(redis, command);
    },
  };
}
