/**
 * A real Redis for tests of scripts: runs one and decodes its reply, and counts the commands inside.
 *
 * @module
 */
import { Redis } from "ioredis";
import { afterAll, beforeAll, beforeEach, expect } from "vitest";
import { ioredisClient } from "../../adapters/ioredis.ts";
import type { Command, CommandClient, Reply } from "../../src/command.ts";
import { lockKeys } from "../../src/keys.ts";
import { runScript, type Script } from "../../src/script.ts";
import { type AcquireReply, acquireScript } from "../../src/scripts/acquire.ts";
import { type ExtendReply, extendScript } from "../../src/scripts/extend.ts";
import { type InspectReply, inspectScript } from "../../src/scripts/inspect.ts";
import { proposeScript } from "../../src/scripts/propose.ts";
import { type ReleaseReply, releaseScript } from "../../src/scripts/release.ts";
import { type RunningRedis, startRedis } from "../support/redis.ts";

export const leaseMs = 60_000;

/** Starts a Redis for the tests of the suite that this is called in, and empties it before each. */
export function useRedis(args: readonly string[] = []): ScriptServer {
  const redis = new ScriptServer();
  beforeAll(() => redis.start(args));
  beforeEach(() => redis.execute("FLUSHALL"));
  afterAll(() => redis.stop());
  return redis;
}

export class ScriptServer {
  #server: RunningRedis | undefined;
  #redis: Redis | undefined;

  async start(args: readonly string[]): Promise<void> {
    this.#server = await startRedis({ args });
    this.#redis = new Redis(this.#server.port, "127.0.0.1");
  }

  async stop(): Promise<void> {
    this.#redis?.disconnect();
    await this.#server?.stop();
  }

  get client(): CommandClient {
    return ioredisClient(this.#redis ?? expect.fail("Redis has not been started"));
  }

  /** Does some work as another user of this Redis, who has no password. */
  async as<T>(user: string, work: (client: CommandClient) => Promise<T>): Promise<T> {
    const redis = new Redis({ port: this.#server?.port ?? 0, username: user, password: "" });
    try {
      return await work(ioredisClient(redis));
    } finally {
      redis.disconnect();
    }
  }

  execute(...command: Command): Promise<Reply> {
    return this.client.execute(command);
  }

  /** Runs a script and gives what its reply means; fails where it means nothing. */
  async run<Result>(script: Script<Result>, keys: readonly string[], args: Command): Promise<Result> {
    const reply = await runScript(this.client, { script, keys, args }, (command) => this.client.execute(command));
    return script.decode(reply) ?? expect.fail(`Cannot decode the reply ${JSON.stringify(reply)}`);
  }

  /** The commands that Redis ran meanwhile, as INFO counts them, without those that run scripts. */
  async countCommands(work: () => Promise<unknown>): Promise<Record<string, number>> {
    await this.execute("CONFIG", "RESETSTAT");
    await work();
    const stats = String(await this.execute("INFO", "commandstats"));
    const calls = [...stats.matchAll(/^cmdstat_([^:]+):calls=(\d+)/gm)].map(([, name, n]) => [name ?? "", Number(n)]);
    return Object.fromEntries(calls.filter(([name]) => !/^(config|eval|info)/.test(String(name))));
  }

  /** The server's clock in µs. */
  async time(): Promise<number> {
    const [seconds, micros] = [await this.execute("TIME")].flat();
    return Number(seconds) * 1e6 + Number(micros);
  }

  acquire(name: string, token: string, proposal: number | "" = "", lease: number = leaseMs): Promise<AcquireReply> {
    const { lock, fence, tombstone } = lockKeys("lock", name);
    const keys = [lock, fence, tombstone(token)];
    return proposal === ""
      ? this.run(acquireScript, keys, [token, lease])
      : this.run(proposeScript, keys, [token, lease, proposal]);
  }

  release(name: string, token: string, tombstoneMs = 0): Promise<ReleaseReply> {
    const { lock, tombstone } = lockKeys("lock", name);
    return this.run(releaseScript, [lock, tombstone(token)], [token, tombstoneMs]);
  }

  extend(name: string, token: string, lease: number = leaseMs): Promise<ExtendReply> {
    return this.run(extendScript, [lockKeys("lock", name).lock], [token, lease]);
  }

  inspect(name: string): Promise<InspectReply> {
    const { lock, fence } = lockKeys("lock", name);
    return this.run(inspectScript, [lock, fence], []);
  }
}
