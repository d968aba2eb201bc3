/** The stress of the cache in short; `npm run stress` runs it at length. The script without its fence check must not survive. */
import { Redis } from "ioredis";
import { afterAll, beforeAll, expect, test } from "vitest";
import { ioredisClient } from "../../adapters/ioredis.ts";
import type { CommandClient } from "../../src/command.ts";
import { commitScript } from "../../src/scripts/commit.ts";
import { describeRedis, type RunningRedis, startRedis } from "../support/redis.ts";
import { stress } from "./stress.ts";

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
  const connect = (): CommandClient => {
    const redis = new Redis(server.port, "127.0.0.1");
    connections.push(redis);
    return ioredisClient(redis);
  };

  test("serves nothing stale and gives no fence twice", { timeout: 60_000 }, async () => {
    const seen = await stress(connect, { reads: 1_500 });
    expect(seen).toMatchObject({ staleReads: 0, sharedFences: 0 });
    // Else it has not been under stress.
    expect(seen.builds).toBeGreaterThan(100);
    expect(seen.invalidations).toBeGreaterThan(50);
    expect(seen.refused).toBeGreaterThan(10);
    expect(seen.oldReads).toBeGreaterThan(10);
  });

  test.each([
    ["the fence", " and h.lf == ARGV[2]", ""],
    ["the token and the fence", "h.t == ARGV[1] and h.lf == ARGV[2]", "true"],
  ])("35: is failed by a commit that does not check %s", { timeout: 60_000 }, async (_, check, instead) => {
    expect(commitScript.source).toContain(check);
    const mutant = commitScript.source.replace(check, instead);
    const seen = await stress(connect, { reads: 200_000 }, ([verb = "", source = "", ...rest]) => [
      verb,
      source === commitScript.source ? mutant : source,
      ...rest,
    ]);
    expect(seen.staleReads).toBeGreaterThan(0);
  });
});
