/**
 * Public reports on what lies between a lock and Redis: quotas, dead sockets, offline queues, failovers, restarts. Each
 * test is named by the id of its report.
 */
import { connect, createServer } from "node:net";
import { Redis } from "ioredis";
import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import { ioredisClient } from "../../adapters/ioredis.ts";
import { memoryClient } from "../../adapters/memory/index.ts";
import { type RestResponse, restClient } from "../../adapters/rest.ts";
import { type Command, type CommandClient, ReplyError } from "../../src/command.ts";
import { createLock } from "../../src/lock.ts";
import { deaths, startDyingServer } from "../support/dying-sockets.ts";
import { answer, fetchDouble } from "../support/fetch-double.ts";
import { oneRedis, verbOf } from "../support/one-redis.ts";
import { describeRedis, listen, type RunningRedis, startRedis } from "../support/redis.ts";
import { lockError } from "../support/rejection.ts";
import { settle, virtualEnvironment } from "../support/virtual-clock.ts";

const key = "lock:{job}";

describe("F03 commands that run twice, or in another order", () => {
  /** A REST API that a test may tell to lose the replies to a verb, or to keep requests until they are let go on. */
  function api() {
    const env = virtualEnvironment();
    const redis = memoryClient({}, env);
    const loses = new Set<string>();
    const kept: (() => void)[] = [];
    const state = { keeps: false };
    const { fetch, calls } = fetchDouble(async ({ body }) => {
      if (state.keeps) await new Promise<void>((resolve) => void kept.push(resolve));
      const command: Command = JSON.parse(body);
      const result = await redis.execute(command);
      if (loses.delete(command[0] === "EVAL" ? verbOf(command) : String(command[0])))
        throw new TypeError("fetch failed");
      return answer(200, { result });
    });
    const client = restClient({ url: "https://eu.example", token: "token", fetch });
    /** Lets what is kept arrive in this order. */
    const arrive = (order: "as sent" | "the other way round"): void => {
      state.keeps = false;
      for (const next of order === "as sent" ? kept : kept.reverse()) next();
    };
    return { ...env, redis, client, lock: createLock(client, {}, env), calls, loses, kept, state, arrive };
  }

  test("F03 a command whose reply is lost is sent once, though it has run", async () => {
    const { redis, client, calls, loses } = api();
    loses.add("INCR");
    await expect(client.execute(["INCR", "counter"])).rejects.toThrow("fetch failed");
    expect(calls).toHaveLength(1);
    expect(await redis.execute(["GET", "counter"])).toBe("1");
  });

  test("F03 an acquire, an extend and a release whose replies are lost are done once, whoever repeats them", async () => {
    const { redis, lock, clock, calls, loses } = api();
    loses.add("acquire");
    const lease = await clock.until(lock.acquire("job", { leaseMs: 10_000 }));
    expect(calls).toHaveLength(2);
    expect(await redis.execute(["GET", `${key}:fence`])).toBe(String(lease.fence));
    loses.add("extend");
    await lockError(clock.until(lease.extend(20_000)), "unavailable");
    await lease.extend(20_000);
    expect(await redis.execute(["PTTL", key])).toBe(20_000);
    loses.add("release");
    await lockError(clock.until(lease.release()), "unavailable");
    expect(await redis.execute(["EXISTS", key])).toBe(0);
    expect(await lease.release()).toBe("released");
    expect(await redis.execute(["GET", `${key}:fence`])).toBe(String(lease.fence));
  });

  const orders = [["as sent"], ["the other way round"]] as const;

  test.for(orders)("F03 of two acquires of one turn that arrive %s one holds", async ([order]) => {
    const { redis, lock, clock, kept, state, arrive } = api();
    state.keeps = true;
    const both = [1, 2].map(() => lock.tryAcquire("job"));
    await settle();
    expect(kept).toHaveLength(2);
    arrive(order);
    const leases = (await clock.until(Promise.all(both))).filter((lease) => lease !== null);
    expect(leases).toHaveLength(1);
    expect(await redis.execute(["GET", key])).toBe(leases[0]?.token);
  });

  test.for(orders)("F03 a release and the next acquire of one turn that arrive %s: never two hold", async ([order]) => {
    const { redis, lock, clock, kept, state, arrive } = api();
    const lease = await lock.acquire("job");
    state.keeps = true;
    const both = [lease.release(), lock.acquire("job")] as const;
    await settle();
    expect(kept).toHaveLength(2);
    arrive(order);
    const [outcome, next] = await clock.until(Promise.all(both));
    expect(outcome).toBe("released");
    expect(lease.remaining()).toBe(0);
    expect(next.fence).toBeGreaterThan(lease.fence);
    expect(await redis.execute(["GET", key])).toBe(next.token);
  });

  test.for(orders)("F03 an extend and a release of one turn that arrive %s leave the lock free", async ([order]) => {
    const { redis, lock, clock, kept, state, arrive } = api();
    const lease = await lock.acquire("job");
    state.keeps = true;
    const [extended, released] = [lockError(lease.extend(60_000), "lost"), lease.release()];
    await settle();
    expect(kept).toHaveLength(2);
    arrive(order);
    await clock.until(extended);
    expect(await released).toBe("released");
    expect(await redis.execute(["EXISTS", key])).toBe(0);
  });
});

describe("F13 quotas and rate limits", () => {
  test("F13 a quota that is used up is unavailable after one request", async () => {
    const fail = new ReplyError("ERR max daily request limit exceeded. Limit: 10000, Usage: 10000.");
    const { lock, clock, verbs } = oneRedis({ waitMs: 10_000 }, { always: { fail } });
    await lockError(clock.until(lock.acquire("job")), "unavailable");
    expect(verbs()).toEqual(["acquire"]);
  });

  /** A lock over a REST API that answers so often with 429 and Retry-After: 2, and then as Redis does. */
  function limited(times: number, body: string) {
    const env = virtualEnvironment();
    const redis = memoryClient({}, env);
    const acquiresAt: number[] = [];
    const respond = async (sent: string): Promise<RestResponse> => {
      const command = JSON.parse(sent);
      const refused = command[2] === 3 && acquiresAt.push(env.clock.monotonic) <= times;
      const result = refused ? undefined : await redis.execute(command);
      return {
        status: refused ? 429 : 200,
        headers: { get: (name) => (refused && name === "retry-after" ? "2" : null) },
        text: async () => (refused ? body : JSON.stringify({ result })),
      };
    };
    const { fetch } = fetchDouble((call) => respond(call.body));
    const client = restClient({ url: "https://eu.example", token: "token", fetch });
    return { lock: createLock(client, {}, env), clock: env.clock, acquiresAt };
  }

  const bodies = [['{"error":"ERR too many requests"}'], ["Too Many Requests"], [""]] as const;

  test.for(bodies)(
    "F13 after 429 with Retry-After: 2 and the body %j the next try is no less than 2 s later",
    async ([body]) => {
      const { lock, clock, acquiresAt } = limited(2, body);
      const lease = await clock.until(lock.acquire("job"));
      expect(lease.remaining()).toBeGreaterThan(0);
      const [first = 0, second = 0, third = 0] = acquiresAt;
      expect(second - first).toBeGreaterThanOrEqual(2_000);
      expect(third - second).toBeGreaterThanOrEqual(2_000);
    },
  );

  test.for(bodies)("F13 after it, with the body %j, a wait of less than 2 s is unavailable at once", async ([body]) => {
    for (const waitMs of [0, 1_500]) {
      const { lock, clock, acquiresAt } = limited(9, body);
      const began = clock.monotonic;
      const error = await lockError(clock.until(lock.acquire("job", { waitMs })), "unavailable");
      expect(error.retryAfterMs).toBe(2_000);
      expect(clock.monotonic).toBe(began);
      expect(acquiresAt).toHaveLength(1);
    }
  });
});

describe("F15 sockets that are dead when they are used", () => {
  test.for(deaths)("F15 fifty cycles succeed although the server %s", async (death) => {
    await using parts = new AsyncDisposableStack();
    const server = await startDyingServer(death);
    parts.defer(server.stop);
    const lock = createLock(restClient(server));
    let last = 0;
    for (let i = 0; i < 50; i += 1) {
      server.idle();
      const fence = await lock.withLock("job", (lease) => {
        server.idle();
        return lease.fence;
      });
      expect(fence).toBeGreaterThan(last);
      last = fence;
    }
    expect(server.requests()).toBeGreaterThanOrEqual(100);
  });
});

describeRedis("a real Redis that comes and goes", () => {
  let server: RunningRedis;
  let admin: Redis;
  const closers: (() => unknown)[] = [];
  beforeAll(async () => {
    server = await startRedis();
    admin = new Redis(server.port);
  });
  afterEach(async () => {
    for (const close of closers.splice(0)) await close();
    await admin.call("REPLICAOF", "NO", "ONE");
    await admin.flushall();
  });
  afterAll(async () => {
    admin.disconnect();
    await server.stop();
  });

  /** A port at which Redis is not there until `start`. */
  async function late(): Promise<{ port: number; start: () => Promise<void> }> {
    const reserved = createServer();
    const port = await listen(reserved);
    await new Promise((resolve) => reserved.close(resolve));
    const gateway = createServer((socket) => {
      const upstream = connect(server.port, "127.0.0.1");
      for (const [one, two] of [
        [socket, upstream],
        [upstream, socket],
      ] as const) {
        one.pipe(two);
        one.on("error", () => two.destroy()).on("close", () => two.destroy());
      }
    });
    closers.push(() => gateway.close());
    return { port, start: () => new Promise((resolve) => gateway.listen(port, "127.0.0.1", resolve)) };
  }

  test("G02 an acquire while Redis is down ends in time over ioredis in its default settings, and takes nothing later", async () => {
    await createLock(ioredisClient(admin)).withLock("warm", () => {}); // the server knows the scripts by their digests
    const { port, start } = await late();
    const redis = new Redis(port);
    redis.on("error", () => {});
    closers.push(() => redis.disconnect());
    const lock = createLock(ioredisClient(redis), { leaseMs: 1_000, waitMs: 300 });
    const began = performance.now();
    await lockError(lock.acquire("job"), "unavailable");
    expect(performance.now() - began).toBeLessThan(5_000);
    await start();
    expect(await redis.ping()).toBe("PONG"); // behind all that ioredis has kept
    expect(await admin.exists(key)).toBe(0);
    const lease = await lock.acquire("job");
    expect(await admin.get(key)).toBe(lease.token);
    expect(await lease.release()).toBe("released");
  }, 30_000);

  /** The client, and how often it has been asked. */
  function counted(client: CommandClient, onCommand: (count: number) => void): CommandClient {
    let count = 0;
    return {
      ...client,
      execute(command, options) {
        count += 1;
        onCommand(count);
        return client.execute(command, options);
      },
    };
  }

  const demote = (): Promise<unknown> => admin.call("REPLICAOF", "127.0.0.1", "1");
  const promote = (): Promise<unknown> => admin.call("REPLICAOF", "NO", "ONE");

  test("G04 an acquire on a demoted primary is tried again within waitMs, and succeeds once there is a primary", async () => {
    const client = counted(ioredisClient(admin), (count) => {
      if (count === 4) void promote();
    });
    await demote();
    const lease = await createLock(client, { leaseMs: 60_000 }).acquire("job");
    expect(await admin.get(key)).toBe(lease.token);
  });

  test("G04 with waitMs 0 it is unavailable with the server's code, and not contended", async () => {
    await demote();
    const error = await lockError(createLock(ioredisClient(admin)).acquire("job", { waitMs: 0 }), "unavailable");
    expect(error.cause).toMatchObject({ name: "ReplyError", code: "READONLY" });
  });

  test("G04 a release there rejects, says nothing of an expiry, and can be repeated", async () => {
    const lease = await createLock(ioredisClient(admin), { leaseMs: 60_000 }).acquire("job");
    await demote();
    const error = await lockError(lease.release(), "unavailable");
    expect(error.cause).toMatchObject({ code: "READONLY" });
    expect(await admin.exists(key)).toBe(1);
    await promote();
    expect(await lease.release()).toBe("released");
  });
});

describe("G05 a Redis that is starting up", () => {
  const answers = [
    "LOADING Redis is loading the dataset in memory",
    "MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.",
    "CLUSTERDOWN The cluster is down",
    "TRYAGAIN Multiple keys request during rehashing of slot",
  ];

  test.for(answers)("G05 %s for 300 ms is waited for", async (message) => {
    const world = oneRedis({ waitMs: 2_000 }, () =>
      world.clock.monotonic < 1_300 ? { fail: new ReplyError(message) } : undefined,
    );
    const lease = await world.clock.until(world.lock.acquire("job"));
    expect(lease.remaining()).toBeGreaterThan(0);
  });

  test.for(answers)("G05 %s is unavailable with waitMs 0, and not contended", async (message) => {
    const { lock, clock } = oneRedis({ waitMs: 0 }, { always: { fail: new ReplyError(message) } });
    const error = await lockError(clock.until(lock.acquire("job")), "unavailable");
    expect(error.cause).toMatchObject({ code: message.split(" ")[0] });
  });
});
