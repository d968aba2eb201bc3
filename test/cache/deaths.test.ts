/** What dies in the midst of a build, for real: the process that builds, and the primary that it was elected on. */
import { expect, test } from "vitest";
import { ioredisClient } from "../../adapters/ioredis.ts";
import { createCache } from "../../src/cache.ts";
import type { CommandClient } from "../../src/command.ts";
import { type ElectReply, electScript } from "../../src/scripts/elect.ts";
import { startPlain, startReplica } from "../doctor/five.ts";
import { gate } from "../support/fetch-double.ts";
import { describeRedis } from "../support/redis.ts";
import { startBuilder } from "./doomed-builder.ts";

const fresh = { freshMs: 60_000 };

describeRedis("in the midst of a build", () => {
  test("10: the SIGKILL of a builder costs 50 who wait elsewhere one build, and the lease and a look at most", async () => {
    await using parts = new AsyncDisposableStack();
    const server = await startPlain(parts);
    const kill = await startBuilder(parts, { port: server.port, leaseMs: 2_000 });

    const client = ioredisClient(server.redis);
    const looks: (ElectReply & { readonly waiter: number })[] = [];
    const allWait = gate<void>();
    const watched = (waiter: number): CommandClient => ({
      async execute(command, options) {
        const reply = await client.execute(command, options);
        const look = command[1] === electScript.source && electScript.decode(reply);
        if (look) looks.push({ ...look, waiter });
        if (new Set(looks.map((one) => one.waiter)).size === 50) allWait.open();
        return reply;
      },
    });
    let builds = 0;
    const build = (): string => {
      builds += 1;
      return "rebuilt";
    };
    const reads = Array.from({ length: 50 }, (_, waiter) =>
      createCache(watched(waiter)).getEntry("k", { ...fresh, waitMs: 60_000 }, build),
    );
    await allWait.promise;
    await kill();
    const sent = looks.length;
    const entries = await Promise.all(reads);

    expect(builds).toBe(1);
    expect(entries.map(({ value, status }) => `${value} ${status}`).sort()).toEqual([
      "rebuilt built",
      ...Array<string>(49).fill("rebuilt waited"),
    ]);
    // All by the server's clock: whoever looks once the lease is over finds it over.
    const lost = looks.filter(({ type, attempt }) => type === "busy" && attempt === looks[0]?.attempt);
    const won = looks.findIndex(({ type }) => type === "won");
    expect(lost).toEqual(looks.slice(0, won));
    expect(Math.max(...lost.map(({ leftMs }) => leftMs))).toBeLessThanOrEqual(2_000);
    // 100 ms, doubling, 500 at most: no more than these fit into what was left of the lease.
    for (const waiter of reads.keys())
      expect(looks.slice(sent, won).filter((look) => look.waiter === waiter).length).toBeLessThanOrEqual(7);
  });

  test.each([
    { election: "copied", builder: "follows", stored: true, later: { value: "first", status: "hit" } },
    { election: "copied", builder: "is cut off", stored: false, later: { value: "second", status: "built" } },
    { election: "lost", builder: "follows", stored: false, later: { value: "second", status: "built" } },
    { election: "lost", builder: "is cut off", stored: false, later: { value: "second", status: "built" } },
  ])(
    "33: a failover wedges nothing, where the election was $election and the builder $builder",
    async ({ election, builder, stored, later }) => {
      await using parts = new AsyncDisposableStack();
      const primary = await startPlain(parts);
      const replica = await startReplica(parts, primary);
      const promoted = ioredisClient(replica.redis);
      const promote = (): Promise<unknown> => replica.redis.replicaof("NO", "ONE");
      const copied = (): Promise<number> => primary.redis.wait(1, 0);
      let { execute } = ioredisClient(primary.redis);
      const cache = createCache({ execute: (command, options) => execute(command, options) });
      await cache.set("before", 1, fresh);
      await copied();
      if (election === "lost") await promote();

      const waits = election === "copied" && builder === "is cut off"; // there alone a lease is waited for
      const entry = await cache.getEntry("k", { ...fresh, leaseMs: waits ? 500 : 60_000 }, async () => {
        if (election === "copied") await copied();
        await primary.stop();
        await promote();
        if (builder === "follows") execute = promoted.execute;
        return "first";
      });
      expect(entry).toMatchObject({ value: "first", status: "built", stored });

      const elsewhere = createCache(promoted);
      const read = (key: string) => elsewhere.getEntry(key, { ...fresh, waitMs: 60_000 }, () => "second");
      expect(await read("before")).toMatchObject({ value: 1, status: "hit" });
      expect(await read("k")).toMatchObject({ ...later, stored: true });
      expect(await read("k")).toMatchObject({ value: later.value, status: "hit" });
      const keys = await replica.redis.keys("*");
      expect(keys.sort()).toEqual(["cache:{before}", "cache:{k}"]);
      for (const key of keys) expect(await replica.redis.pttl(key)).toBeGreaterThan(0);
    },
  );
});
