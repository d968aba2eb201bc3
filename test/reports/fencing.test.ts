/**
 * Public reports on fencing tokens, for both locks. Each test is named by the id of its report.
 */
import { Redis } from "ioredis";
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { ioredisClient } from "../../adapters/ioredis.ts";
import { memoryClient } from "../../adapters/memory/index.ts";
import { restClient } from "../../adapters/rest.ts";
import type { CommandClient } from "../../src/command.ts";
import { fencedSet } from "../../src/fence.ts";
import { createLock } from "../../src/lock.ts";
import type { Lock, LockOptions } from "../../src/lock-methods.ts";
import { createRedlock } from "../../src/redlock.ts";
import { acquireScript } from "../../src/scripts/acquire.ts";
import { fencedSetScript } from "../../src/scripts/fenced-set.ts";
import { proposeScript } from "../../src/scripts/propose.ts";
import { redisCalls } from "../scripts/calls.ts";
import { faultyClient } from "../support/faulty-client.ts";
import { describeRedis, type RunningRedis, startRedis, startRestServer } from "../support/redis.ts";
import { lockError } from "../support/rejection.ts";
import { type VirtualClock, virtualEnvironment } from "../support/virtual-clock.ts";

const key = "lock:{job}";
const fenceKey = `${key}:fence`;

interface Subject {
  readonly lock: Lock;
  readonly clock: VirtualClock;
  readonly nodes: readonly CommandClient[];
  readonly run: (...command: (string | number)[]) => Promise<unknown>;
}

function over(count: number, options: LockOptions = {}): Subject {
  const env = virtualEnvironment();
  const nodes = Array.from({ length: count }, () => memoryClient({}, env));
  const [first] = nodes;
  const lock = count === 1 && first ? createLock(first, options, env) : createRedlock(nodes, options, env);
  return {
    lock,
    clock: env.clock,
    nodes,
    run: (...command) => Promise.all(nodes.map((node) => node.execute(command))),
  };
}

const kinds = [
  ["createLock()", 1],
  ["createRedlock() over 3", 3],
  ["createRedlock() over 5", 5],
] as const;

describe.for(kinds)("L01 a token is missing, or not tied to its acquisition: %s", ([, count]) => {
  test.for(["a release", "an expiry", "a DEL"])("L01 it grows over %s", async (between) => {
    const { lock, clock, run } = over(count, { leaseMs: 1_000 });
    let last = 0;
    for (let i = 0; i < 20; i += 1) {
      const lease = await clock.until(lock.acquire("job"));
      expect(lease.fence).toBeGreaterThan(last);
      last = lease.fence;
      if (between === "a release") await clock.until(lease.release());
      else if (between === "an expiry") await clock.advance(1_001);
      else await run("DEL", key);
    }
  });

  test("L01 an extend keeps it, and a try that failed may skip a number but repeats none", async () => {
    const { lock, clock } = over(count, { waitMs: 0 });
    const first = await clock.until(lock.acquire("job"));
    await lockError(clock.until(lock.acquire("job")), "contended");
    const { fence } = first;
    await clock.until(first.extend());
    expect(first.fence).toBe(fence);
    await clock.until(first.release());
    expect((await clock.until(lock.acquire("job"))).fence).toBeGreaterThan(fence);
  });

  test("L01 it is issued in the one step that grants: a lock that is cut off at any command holds none without it", async () => {
    for (let cut = 0; cut < 2 * count; cut += 1) {
      const env = virtualEnvironment();
      const nodes = Array.from({ length: count }, () => memoryClient({}, env));
      let sent = 0;
      const clients = nodes.map((node) =>
        faultyClient(node, env.clock, () => {
          sent += 1;
          return sent - 1 >= cut ? { lose: cut % 2 ? "reply" : "request" } : undefined;
        }),
      );
      const lock = createRedlock(clients, { waitMs: 0 }, env);
      await env.clock.until(lock.acquire("job").catch(() => {}));
      for (const node of nodes) {
        if (await node.execute(["EXISTS", key]))
          expect(Number(await node.execute(["GET", fenceKey]))).toBeGreaterThan(0);
      }
    }
  });
});

test.for([
  ["acquire", acquireScript],
  ["propose", proposeScript],
  ["fencedSet", fencedSetScript],
] as const)(
  "L01 %s writes the fence before what it is for, so that nothing ever stands without it",
  ([, { source }]) => {
    const written = redisCalls(source).flatMap(({ command, args }) => (command === "SET" ? args.slice(0, 1) : []));
    expect(written[0]).toBe("KEYS[2]");
    expect(new Set(written.slice(1))).toEqual(new Set(["KEYS[1]"]));
  },
);

describe.for(kinds)("L02 counter keys pile up, or restart: %s", ([, count]) => {
  test("L02 a counter ends a week after its last grant, and the next number is above all before", async () => {
    const { lock, clock, run } = over(count);
    const first = await clock.until(lock.acquire("job"));
    await clock.until(first.release());
    await clock.advance(7 * 86_400_000 + 1);
    expect(await run("DBSIZE")).toEqual(Array(count).fill(0));
    expect((await clock.until(lock.acquire("job"))).fence).toBeGreaterThan(first.fence);
  });

  test("L02 a counter that is deleted by hand, or lost with all else, changes nothing", async () => {
    const { lock, clock, run } = over(count);
    let last = 0;
    for (const command of [["DEL", fenceKey], ["FLUSHALL"], ["DEL", fenceKey]]) {
      const lease = await clock.until(lock.acquire("job"));
      expect(lease.fence).toBeGreaterThan(last);
      last = lease.fence;
      await clock.until(lease.release());
      await run(...command);
      await clock.advance(1);
    }
    expect((await clock.until(lock.acquire("job"))).fence).toBeGreaterThan(last);
  });

  test("L02 one that runs ahead of the clock lives longer by as much", async () => {
    const { lock, clock, run, nodes } = over(count);
    const aheadUs = (clock.wall + 3_600_000) * 1_000;
    await run("SET", fenceKey, aheadUs, "PX", 1_000);
    const lease = await clock.until(lock.acquire("job"));
    expect(lease.fence).toBe(aheadUs + 1);
    for (const node of nodes) expect(await node.execute(["PTTL", fenceKey])).toBe(7 * 86_400_000 + 3_600_001);
  });
});

describe.for(kinds)("L03 the precision of a token: %s", ([, count]) => {
  test.for([[2 ** 52], [2 ** 53 - 1], [2 ** 53], [2 ** 60]])(
    "L03 past a counter of %i it fails loudly, and leaves nothing held",
    async ([counter = 0]) => {
      const { lock, clock, run } = over(count);
      await run("SET", fenceKey, String(BigInt(counter)));
      await lockError(clock.until(lock.acquire("job")), "config");
      await clock.advance(1_000);
      expect(await run("EXISTS", key)).toEqual(Array(count).fill(0));
    },
  );
});

describeRedis("on a real Redis", () => {
  let server: RunningRedis;
  let redis: Redis;
  let clients: Record<string, CommandClient>;
  const closing = new AsyncDisposableStack();
  beforeAll(async () => {
    server = await startRedis();
    closing.defer(server.stop);
    redis = new Redis(server.port);
    closing.defer(() => redis.disconnect());
    const direct = ioredisClient(redis);
    const { url, token, stop } = await startRestServer(direct);
    closing.defer(stop);
    clients = { ioredis: direct, REST: restClient({ url, token }) };
  });
  beforeEach(() => redis.flushall());
  afterAll(() => closing.disposeAsync());

  test.for(["ioredis", "REST"])("L04 a holder that was paused past its lease is refused over %s", async (name) => {
    const client = clients[name] ?? expect.fail();
    const lock = createLock(client);
    const a = await lock.acquire("job", { leaseMs: 100 });
    await new Promise((resolve) => setTimeout(resolve, 120)); // the pause
    const b = await lock.acquire("job");
    expect(b.fence).toBeGreaterThan(a.fence);
    expect(await fencedSet(client, { key: "work", value: "B's", fence: b.fence })).toBe(true);
    expect(await fencedSet(client, { key: "work", value: "A's", fence: a.fence })).toBe(false);
    expect(await redis.get("work")).toBe("B's");
    expect(await fencedSet(client, { key: "work", value: "B's second", fence: b.fence })).toBe(true);
    expect(await redis.get("work")).toBe("B's second");
    await b.release();
  });

  test("L04 the check and the write are one step: of late and new writes at once none is undone", async () => {
    const client = clients.ioredis ?? expect.fail();
    for (let round = 1; round <= 50; round += 1) {
      const [old, young] = [round * 10, round * 10 + 1];
      const late = Array.from({ length: 5 }, (_, i) =>
        fencedSet(client, { key: "work", value: `late ${i}`, fence: old }),
      );
      const fresh = fencedSet(client, { key: "work", value: `fresh ${round}`, fence: young });
      const later = Array.from({ length: 5 }, (_, i) =>
        fencedSet(client, { key: "work", value: `late ${i}`, fence: old }),
      );
      await Promise.all([...late, fresh, ...later]);
      expect(await fresh).toBe(true);
      expect(await redis.get("work")).toBe(`fresh ${round}`);
    }
  });
});
