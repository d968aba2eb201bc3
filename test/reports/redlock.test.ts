/**
 * Public reports on locks over a quorum. Each test is named by the id of its report.
 */
import { describe, expect, test } from "vitest";
import { memoryClient } from "../../adapters/memory/index.ts";
import { ReplyError } from "../../src/command.ts";
import type { LeaseholdEvent } from "../../src/events.ts";
import type { Lease } from "../../src/lease.ts";
import { createRedlock } from "../../src/redlock.ts";
import { bothLocks, key, world } from "../redlock/world.ts";
import { type Fault, faultyClient } from "../support/faulty-client.ts";
import { tokenOf } from "../support/one-redis.ts";
import { lockError } from "../support/rejection.ts";
import { lasting, seededRandom, virtualEnvironment } from "../support/virtual-clock.ts";

describe("D01 one dead node blocks everything", () => {
  test.for<[string, Fault | "throw"]>([
    ["refuses", { fail: new Error("connect ECONNREFUSED 127.0.0.1:6379") }],
    ["cannot be found", { fail: new Error("getaddrinfo ENOTFOUND redis.example") }],
    ["answers with an error", { fail: new ReplyError("READONLY You can't write against a read only replica.") }],
    ["never replies", { lose: "request" }],
    ["throws at once", "throw"],
  ])("D01 two votes of three are enough to acquire, extend and release where the third %s", async ([, fault]) => {
    // It fails before the others have answered.
    const { lock, clock } = world(3, {}, ({ node }) => {
      if (node > 0) return { replyMs: 5 };
      if (fault === "throw") throw new Error("The client is closed");
      return fault;
    });
    const began = clock.monotonic;
    const lease = await clock.until(lock.acquire("job"));
    await clock.until(lease.extend());
    expect(await clock.until(lease.release())).toBe("released");
    expect(clock.monotonic - began).toBe(3 * 5);
  });

  test("D01 a node that never replies costs its time-out at most, where its vote is needed", async () => {
    const { lock, clock } = world(3, { waitMs: 0 }, ({ node }) => (node < 2 ? { lose: "request" } : undefined));
    const began = clock.monotonic;
    await lockError(clock.until(lock.acquire("job")), "unavailable");
    expect(clock.monotonic - began).toBeLessThanOrEqual(2 * 2_500); // the round's, and its roll-back's
  });
});

describe("D02 the slowest node decides", () => {
  test("D02 ways of 5, 5 and 5000 ms take 5 ms, and what lands after the release stays for a lease at most", async () => {
    const ways = [5, 5, 5_000];
    const { lock, clock, nodes } = world(3, { leaseMs: 10_000 }, ({ node }) => ({ requestMs: ways[node] ?? 0 }));
    const began = clock.monotonic;
    const lease = await clock.until(lock.acquire("job"));
    expect(clock.monotonic - began).toBe(5);
    await clock.until(lease.release());
    for (let ms = 0; ms < 25_000; ms += 100) {
      await clock.advance(100);
      const left = Number(await nodes[2]?.execute(["PTTL", key]));
      expect(left).toBeLessThanOrEqual(10_000);
      expect(left).not.toBe(-1);
    }
    expect(await nodes[2]?.execute(["EXISTS", key])).toBe(0);
  });
});

describe("D03 a quorum of those that can be reached", () => {
  test.for([
    [1, 1],
    [2, 2],
    [3, 2],
    [4, 3],
    [5, 3],
  ])("D03 of %i nodes it takes %i, whoever can be reached", async ([count = 0, quorum = 0]) => {
    for (let up = 0; up <= count; up += 1) {
      const { lock, clock } = world(count, { waitMs: 0 }, ({ node }) =>
        node < up ? undefined : { fail: new Error("down") },
      );
      const acquiring = lock.acquire("job");
      if (up < quorum) await lockError(clock.until(acquiring), "unavailable");
      else expect((await clock.until(acquiring)).remaining()).toBeGreaterThan(0);
    }
  });
});

test("D05 nodes that took the key but answered badly, or not, are cleaned as well; another's key is left", async () => {
  const { lock, clock, nodes, sentOf } = world(3, { waitMs: 0 }, ({ node, verb }) =>
    verb === "acquire" && node === 1 ? { lose: "reply", fail: new ReplyError("ERR something odd") } : undefined,
  );
  await nodes[2]?.execute(["SET", key, "theirs", "PX", 60_000]);
  await lockError(clock.until(lock.acquire("job")), "contended");
  expect(sentOf("release").map(({ node }) => node)).toEqual([0, 1, 2]);
  const left = await Promise.all(nodes.map((node) => node.execute(["GET", key])));
  expect(left).toEqual([null, null, "theirs"]);
});

describe("D06 split votes", () => {
  test.for([
    [2, 2],
    [3, 3],
  ])(
    "D06 with %i nodes and as many clients in step someone wins within 10 rounds, and never two",
    { timeout: 60_000 },
    async ([count = 0]) => {
      const [runs, won] = [1_000, { early: 0, split: 0 }];
      for (let seed = 1; seed <= runs; seed += 1) {
        const env = virtualEnvironment(seed);
        const { clock } = env;
        const nodes = Array.from({ length: count }, () => memoryClient({}, env));
        const holding = new Set<Lease>();
        let most = 0;
        const rounds = await Promise.all(
          nodes.map(async (_, client) => {
            const random = seededRandom(seed * 31 + client);
            // Each has a node near to it: they split the votes, and again for as long as they stay in step.
            const clients = nodes.map((node, place) => {
              const wayMs = place === client ? 1 : 4;
              return faultyClient(node, clock, () => ({ requestMs: wayMs, replyMs: wayMs }));
            });
            const events: LeaseholdEvent[] = [];
            const observe = (event: LeaseholdEvent): void => void events.push(event);
            const lock = createRedlock(clients, { observe, leaseMs: 60_000, waitMs: 60_000 }, { ...env, random });
            const acquiring = lock.acquire("job").then(
              (lease) => {
                holding.add(lease);
                most = Math.max(most, holding.size);
              },
              () => {},
            );
            await clock.until(Promise.race([acquiring, lasting(clock, 5_000)]));
            return events.filter(({ type }) => type === "contended").length;
          }),
        );
        expect(most).toBe(1);
        const least = Math.min(...rounds);
        if (least > 0) won.split += 1;
        if (least < 10) won.early += 1;
      }
      expect(won.early / runs).toBeGreaterThanOrEqual(0.99);
      expect(won.split).toBe(runs); // else something was not in step
    },
  );
});

describe("D07 a thin quorum erodes as nodes restart empty", () => {
  test("D07 of three of five that hold it one is flushed: the next extend loses the lease, and never says held", async () => {
    const { lock, clock, nodes, events } = world(5, {}, ({ node, verb }) =>
      verb === "acquire" && node > 2 ? { fail: new Error("down") } : undefined,
    );
    const lease = await clock.until(lock.acquire("job"));
    await nodes[0]?.execute(["FLUSHALL"]);
    expect((await lockError(clock.until(lease.extend()), "lost")).lostBy).toBe("expired");
    expect(lease.remaining()).toBe(0);
    const votes = events.find(({ type }) => type === "acquired")?.nodes.map(({ outcome }) => outcome);
    expect(votes?.filter((vote) => vote === "granted")).toHaveLength(3);
  });

  test("D07 a quorum of 4 of 5 outlives one node that forgets: nobody else can have the lock", async () => {
    const { lock, clock, nodes, other } = world(5, { quorum: 4, waitMs: 0 });
    const strict = createRedlock(nodes, { quorum: 4, waitMs: 0 }, { ...virtualEnvironment(3), clock });
    const lease = await clock.until(lock.acquire("job"));
    await clock.advance(1);
    await nodes[0]?.execute(["FLUSHALL"]);
    await lockError(clock.until(strict.acquire("job")), "contended");
    await clock.until(lease.extend());
    expect(lease.remaining()).toBeGreaterThan(0);
    await lockError(clock.until(other.acquire("job", { waitMs: 0 })), "contended");
  });
});

describe("D08 the wall clock jumps", () => {
  test("D08 backwards by an hour: nothing is prolonged", async () => {
    const { lock, clock } = world(3, { leaseMs: 10_000 });
    const lease = await lock.acquire("job");
    await clock.advance(1_000);
    clock.wall -= 3_600_000;
    expect(lease.remaining()).toBe(8_898);
    await clock.advance(8_898);
    expect(lease.remaining()).toBe(0);
    expect(lease.signal.aborted).toBe(true);
  });

  test("D08 forwards by an hour: the lease may end early, and never late", async () => {
    const { lock, clock } = world(3, { leaseMs: 10_000 });
    const lease = await lock.acquire("job");
    clock.wall += 3_600_000;
    expect(lease.remaining()).toBe(0);
    expect(lease.signal.reason).toMatchObject({ lostBy: "expired" });
  });

  test.for(bothLocks)("D08 backwards where there is but one clock: nothing is prolonged: %s", async ([, build]) => {
    const { lock, clock } = build({ leaseMs: 10_000 });
    const lease = await lock.acquire("job");
    clock.wall -= 3_600_000;
    clock.monotonic -= 3_600_000;
    expect(lease.remaining()).toBe(0); // as it cannot be known how much is left
    expect(lease.signal.reason).toMatchObject({ lostBy: "expired" });
  });

  test.for([[-3_600_000], [3_600_000]])(
    "D08 by %i ms while waiting: the time to wait is the same",
    async ([step = 0]) => {
      const { lock, clock, nodes } = world(3, { waitMs: 2_000 });
      for (const node of nodes) await node.execute(["SET", key, "theirs"]);
      const began = clock.monotonic;
      const waiting = lockError(lock.acquire("job"), "timeout");
      await clock.advance(500);
      clock.wall += step;
      await clock.until(waiting);
      expect(clock.monotonic - began).toBe(2_000);
    },
  );

  test.for(bothLocks)("D08 backwards by an hour within a task: it is renewed as ever: %s", async ([, build]) => {
    const renewedAt = async (stepMs: number) => {
      const { lock, clock, sentOf, nodes, stepWall } = build({ leaseMs: 10_000 });
      const task = async (): Promise<void> => {
        await lasting(clock, 7_000); // between two renewals
        stepWall(stepMs);
        await lasting(clock, 53_000);
      };
      await clock.until(lock.withLock("job", task));
      return nodes.map((_, node) => sentOf("extend", node).map(({ at }) => at));
    };
    const calm = await renewedAt(0);
    for (const times of calm) expect(times.length).toBeGreaterThan(10);
    expect(await renewedAt(-3_600_000)).toEqual(calm);
  });

  test.for(bothLocks)(
    "D08 backwards on the nodes, and forwards again, within a task: no holder believes in what was not asked for: %s",
    async ([, build]) => {
      const { lock, clock, other, stepNodes } = build({ leaseMs: 10_000 });
      const task = async (lease: Lease): Promise<void> => {
        await lasting(clock, 4_000);
        stepNodes(-3_600_000);
        await lasting(clock, 5_000); // a renewal finds an hour left
        expect(lease.remaining()).toBeGreaterThan(0);
        expect(lease.remaining()).toBeLessThan(10_000);
        stepNodes(3_600_000); // set right again
        await lasting(clock, 11_000);
        const next = await other.tryAcquire("job");
        expect(next).toBeNull();
        expect(lease.remaining()).toBeGreaterThan(0);
      };
      await clock.until(lock.withLock("job", task));
    },
  );

  test("D08 backwards between two holders: the next fence is above all the same", async () => {
    const { lock, clock, other } = world(3);
    const first = await lock.acquire("job");
    await first.release();
    clock.wall -= 3_600_000;
    const second = await clock.until(other.acquire("job", { waitMs: 0 }));
    expect(second.fence).toBeGreaterThan(first.fence);
  });
});

describe("D09 an impossible quorum looks like contention", () => {
  test("D09 two of three down are unavailable after the first round, with each one's cause", async () => {
    const { lock, clock, sentOf } = world(3, { waitMs: 0 }, ({ node }) =>
      [{ fail: new Error("ECONNREFUSED") }, { fail: new ReplyError("LOADING Redis is loading") }, undefined].at(node),
    );
    const error = await lockError(clock.until(lock.acquire("job")), "unavailable");
    expect(sentOf("acquire")).toHaveLength(3);
    expect(error.nodes).toEqual(
      expect.arrayContaining([
        expect.objectContaining({ label: "node 1", reason: "ECONNREFUSED" }),
        expect.objectContaining({ label: "node 2", outcome: "no-vote", reason: "LOADING Redis is loading" }),
      ]),
    );
    expect(await lock.tryAcquire("job").catch(({ code }: { code: string }) => code)).toBe("unavailable");
  });

  test("D09 three up that another holds are contended", async () => {
    const { lock, other, clock, sentOf } = world(3, { waitMs: 0 });
    await other.acquire("job");
    await clock.advance(1);
    const error = await lockError(lock.acquire("job"), "contended");
    expect(error.nodes?.every(({ outcome }) => outcome === "held")).toBe(true);
    expect(new Set(sentOf("acquire").map(({ command }) => tokenOf(command))).size).toBe(1);
  });
});
