/** The stress of the cache in short; `npm run stress` runs it at length. The script without its fence check must not survive. */
import { Redis } from "ioredis";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { ioredisClient } from "../../adapters/ioredis.ts";
import type { Command, CommandClient } from "../../src/command.ts";
import { commitScript } from "../../src/scripts/commit.ts";
import { describeRedis, type RunningRedis, startRedis } from "../support/redis.ts";
import { stress } from "./stress.ts";

/** Puts a commit with another text in the place of the right one. */
function withCommit(text: string, instead: string): (command: Command) => Command {
  expect(commitScript.source).toContain(text);
  const mutant = commitScript.source.replace(text, instead);
  return ([verb = "", source = "", ...rest]) => [verb, source === commitScript.source ? mutant : source, ...rest];
}

describeRedis("a guarded cache under stress", () => {
  let server: RunningRedis;
  const connections: Redis[] = [];
  beforeAll(async () => {
    server = await startRedis();
  });
  afterAll(async () => {
    for (const connection of connections) connection.disconnect();
    await server.stop();
  });
  const open = ({ port }: RunningRedis): Redis => {
    const redis = new Redis(port, "127.0.0.1");
    connections.push(redis);
    return redis;
  };
  const connect = (): CommandClient => ioredisClient(open(server));

  test("serves nothing stale and gives no fence twice", { timeout: 60_000 }, async () => {
    const seen = await stress(connect, { reads: 1_500 });
    expect(seen).toMatchObject({ staleReads: 0, sharedFences: 0 });
    // Else it has not been under stress.
    expect(seen.builds).toBeGreaterThan(100);
    expect(seen.invalidations).toBeGreaterThan(50);
    expect(seen.refused).toBeGreaterThan(10);
    expect(seen.oldReads).toBeGreaterThan(10);
  });

  describe("24: on a server that evicts what it likes", () => {
    let small: RunningRedis;
    let filler: Redis;
    let evicted = 0;
    beforeAll(async () => {
      small = await startRedis({ args: ["--maxmemory-policy", "allkeys-random", "--notify-keyspace-events", "Ee"] });
      filler = open(small);
      const used = /used_memory:(\d+)/.exec(await filler.info("memory"))?.[1];
      await filler.config("SET", "maxmemory", String(Number(used) + 2_000_000));
      const evictions = open(small);
      evictions.on("message", (_, key: string) => {
        if (key.startsWith("cache:")) evicted += 1;
      });
      await evictions.subscribe("__keyevent@0__:evicted");
    });
    afterAll(() => {
      for (const connection of connections) connection.disconnect();
      return small.stop();
    });

    const connectSmall = (): CommandClient => ioredisClient(open(small));
    let commands = 0;
    /** Lets each third command come with one that leaves no room for all that stands. */
    const crowded = (command: Command): Command => {
      commands += 1;
      if (commands % 3 === 0) filler.set(`junk ${commands}`, "x".repeat(50_000)).catch(() => {});
      return command;
    };

    test("serves nothing stale and gives no fence twice", { timeout: 60_000 }, async () => {
      const seen = await stress(connectSmall, { reads: 800 }, crowded);
      expect(seen).toMatchObject({ staleReads: 0, sharedFences: 0 });
      // Else it has not been under stress.
      expect(seen.builds).toBeGreaterThan(50);
      expect(seen.refused).toBeGreaterThan(10);
      expect(evicted).toBeGreaterThan(10);
    });

    test("is failed by a commit that takes an entry that is gone for its own", { timeout: 60_000 }, async () => {
      const mutate = withCommit("if not mine then", "if not mine and h.lf then");
      const seen = await stress(connectSmall, { reads: 200_000 }, (command) => crowded(mutate(command)));
      expect(seen.staleReads).toBeGreaterThan(0);
    });
  });

  test.each([
    ["the fence", " and h.lf == ARGV[2]", ""],
    ["the token and the fence", "h.t == ARGV[1] and h.lf == ARGV[2]", "true"],
  ])("35: is failed by a commit that does not check %s", { timeout: 60_000 }, async (_, check, instead) => {
    const seen = await stress(connect, { reads: 200_000 }, withCommit(check, instead));
    expect(seen.staleReads).toBeGreaterThan(0);
  });
});
