/** Counts what each operation costs, as Redis itself counts it, and holds the README's table to it. */
import { readFileSync } from "node:fs";
import { Redis } from "ioredis";
import { expect, test } from "vitest";
import { ioredisClient } from "../adapters/ioredis.ts";
import { createCache } from "../src/cache.ts";
import type { CommandClient } from "../src/command.ts";
import { createLock } from "../src/lock.ts";
import { describeRedis, startRedis } from "./support/redis.ts";

/** Without what only lines up the columns of its tables. */
const readme = readFileSync(new URL("../README.md", import.meta.url), "utf8").replace(/ {2,}\|/g, " |");

describeRedis("the cost of an operation", () => {
  test("is what the README says, in requests and in commands inside the scripts", async () => {
    await using parts = new AsyncDisposableStack();
    const server = await startRedis();
    parts.defer(server.stop);
    const redis = new Redis(server.port, "127.0.0.1");
    parts.defer(async () => redis.disconnect());
    let requests = 0;
    const backing = ioredisClient(redis);
    // As an HTTP client sends them: always EVAL.
    const client: CommandClient = {
      execute(command, options) {
        requests += 1;
        return backing.execute(command, options);
      },
    };
    const rows: string[] = [];
    const count = async <T>(operation: string, run: () => Promise<T>): Promise<T> => {
      await redis.config("RESETSTAT");
      requests = 0;
      const result = await run();
      const stats = [...(await redis.info("commandstats")).matchAll(/^cmdstat_([a-z|]+):calls=(\d+)/gm)];
      const inner = stats.filter(([, name = ""]) => !/^(config|info|eval)/.test(name));
      rows.push(`| ${operation} | ${requests} | ${inner.reduce((sum, [, , calls]) => sum + Number(calls), 0)} |`);
      return result;
    };

    const lock = createLock(client);
    const lease = await count("acquire", () => lock.acquire("a"));
    await count("a try while another holds it", () => lock.tryAcquire("a"));
    await count("extend, renew", () => lease.extend(20_000));
    await count("release", () => lease.release());
    const cache = createCache(client);
    const read = (): Promise<number> => cache.get("a", { freshMs: 60_000 }, () => 42);
    await count("cache: rebuild", read);
    await count("cache: hit", read);
    await count("cache: set", () => cache.set("a", 43, { freshMs: 60_000 }));
    await count("cache: invalidate", () => cache.invalidate("a"));

    const start = readme.indexOf("| operation |");
    const table = readme.slice(start, readme.indexOf("\n\n", start)).split("\n").slice(2);
    expect([...table].sort()).toEqual([...rows].sort());
  });
});
