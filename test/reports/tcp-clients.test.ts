/**
 * Public reports on Redis clients over TCP, as far as their adapters answer for them.
 */
import { connect, createServer } from "node:net";
import { Cluster, Redis } from "ioredis";
import { Cluster as Cluster5, Redis as Redis5 } from "ioredis-5";
import { createClient, createClientPool, createCluster } from "redis";
import { createClient as createClient5 } from "redis-5";
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { bunClient } from "../../adapters/bun.ts";
import { ioredisClient } from "../../adapters/ioredis.ts";
import { nodeRedisClient } from "../../adapters/node-redis.ts";
import { upstashClient } from "../../adapters/upstash.ts";
import { type CommandClient, isReplyError, type Reply } from "../../src/command.ts";
import { inspectLock } from "../../src/inspect.ts";
import type { Lease } from "../../src/lease.ts";
import { createLock } from "../../src/lock.ts";
import type { Script } from "../../src/script.ts";
import { acquireScript } from "../../src/scripts/acquire.ts";
import { extendScript } from "../../src/scripts/extend.ts";
import { inspectScript } from "../../src/scripts/inspect.ts";
import { releaseScript } from "../../src/scripts/release.ts";
import { type RunningCluster, startCluster } from "../support/cluster.ts";
import { describeRedis, listen, type RunningRedis, startRedis } from "../support/redis.ts";
import { lockError, rejection } from "../support/rejection.ts";

const lockKey = "lock:{invoice:42}";
const fenceKey = `${lockKey}:fence`;
const voidKey = `${lockKey}:void:tA`;

describeRedis("one Redis over TCP", () => {
  const closers: (() => unknown)[] = [];
  let server: RunningRedis;
  let admin: Redis;
  beforeAll(async () => {
    server = await startRedis();
    admin = opened(new Redis(server.port));
  });
  afterAll(async () => {
    for (const close of closers) await close();
    await server.stop();
  });

  beforeEach(() => admin.flushall());

  function opened<R extends Redis | Redis5>(redis: R): R {
    closers.push(() => redis.disconnect());
    return redis;
  }

  async function connected<R extends NodeRedisInstance>(redis: R): Promise<R> {
    redis.on("error", () => {});
    closers.push(() => redis.destroy());
    await redis.connect();
    return redis;
  }

  const clients: Record<string, () => Promise<CommandClient>> = {
    "ioredis 6": async () => ioredisClient(opened(new Redis(server.port))),
    "ioredis 6 on RESP2": async () => ioredisClient(opened(new Redis({ port: server.port, protocol: 2 }))),
    "ioredis 5": async () => ioredisClient(opened(new Redis5(server.port))),
    "redis 6": async () => nodeRedisClient(await connected(createClient(at(server)))),
    "redis 6 on RESP2": async () => nodeRedisClient(await connected(createClient({ ...at(server), RESP: 2 }))),
    "a pool of redis 6": async () => nodeRedisClient(await connected(createClientPool(at(server)))),
    "redis 5": async () => nodeRedisClient(await connected(createClient5(at(server)))),
    "redis 5 on RESP3": async () => nodeRedisClient(await connected(createClient5({ ...at(server), RESP: 3 }))),
  };

  const conversions: [what: string, convert: (reply: unknown) => unknown][] = [
    ["Buffers", (reply) => reply],
    ["bytes", converted((part) => (Buffer.isBuffer(part) ? Uint8Array.from(part) : part))],
    ["strings", converted(String)],
  ];
  test.for(conversions)("A11 a lock is held and let go of over clients that give %s", async ([, convert]) => {
    const redis = opened(new Redis(server.port));
    const sent = new Set<string>();
    const send = async (command: string, args: (string | number)[]): Promise<unknown> => {
      sent.add(command);
      return convert(await redis.callBuffer(command, ...args));
    };
    for (const client of [
      ioredisClient({ call: (command, ...args) => send(command, args) }),
      nodeRedisClient({ sendCommand: ([command = "", ...args]) => send(command, args) }),
      bunClient({ send }),
    ]) {
      const lock = createLock(client, { waitMs: 0 });
      const lease = await lock.acquire("invoice:42");
      expect(await lock.tryAcquire("invoice:42")).toBeNull();
      expect(await inspectLock(client, "invoice:42")).toMatchObject({ held: true, fence: lease.fence });
      await lease.extend();
      expect(await lease.release()).toBe("released");
      expect(await admin.exists(lockKey)).toBe(0);
    }
    expect(sent.size).toBeGreaterThan(0);
    for (const command of sent) expect(command).toMatch(/^EVAL(SHA)?$/); // no GET: the scripts alone decide whose it is
  });

  for (const [name, build] of Object.entries(clients)) {
    test(`G01 the full lifecycle passes on ${name}`, async () => {
      await expectFullLifecycle(await build());
    });

    test(`G08 the replies of a script are those of RESP2 on ${name}`, async () => {
      const client = await build();
      const replyTo = (source: string): Promise<Reply> => client.execute(["EVAL", `return ${source}`, 0]);
      expect(await replyTo("1")).toBe(1);
      expect(await replyTo("0")).toBe(0);
      expect(await replyTo("nil")).toBeNull();
      expect(await replyTo("'5'")).toBe("5");
      expect(await replyTo("{1,'x',false}")).toEqual([1, "x", null]);
      expect(await replyTo("4503599627370496")).toBe(2 ** 52);
      expect(await replyTo("redis.status_reply('FINE')")).toBe("FINE");
    });
  }

  const prefixed: Record<string, () => Promise<CommandClient>> = {
    "ioredis 6": async () => ioredisClient(opened(new Redis({ port: server.port, keyPrefix: "app:" }))),
    "ioredis 5": async () => ioredisClient(opened(new Redis5({ port: server.port, keyPrefix: "app:" }))),
    "redis 6": async () => nodeRedisClient(await connected(createClient({ ...at(server), keyPrefix: "app:" }))),
    "a pool of redis 6": async () =>
      nodeRedisClient(await connected(createClientPool({ ...at(server), keyPrefix: Buffer.from("app:") }))),
  };
  test.for(Object.entries(prefixed))("E06 the keyPrefix of %s stands before every key", async ([, build]) => {
    const client = await build();
    await expectFullLifecycle(client);
    expect(await admin.keys("*")).toEqual([`app:${fenceKey}`]);
    await acquire(client);
    expect(await admin.get(`app:${lockKey}`)).toBe("tA");
    await release(client, 60_000);
    expect((await admin.keys("*")).sort()).toEqual([`app:${fenceKey}`, `app:${voidKey}`]);
  });

  test("E06 node-redis refuses a command whose keys it cannot prefix", async () => {
    const client = nodeRedisClient(await connected(createClient({ ...at(server), keyPrefix: "app:" })));
    await expect(client.execute(["GET", "key"])).rejects.toMatchObject({
      code: "config",
      message: 'Cannot send GET as node-redis leaves its keyPrefix out of all but scripts: current value is "app:"',
    });
  });

  test("G02 a command that node-redis keeps while Redis is down is taken back by the signal", async () => {
    const late = await lateRedis(server);
    const redis = createClient({ socket: { port: late.port, reconnectStrategy: 10 } });
    const connecting = connected(redis);
    await expectAbort(nodeRedisClient(redis), ["SET", "taken-back", "1"]);
    await late.start();
    closers.push(late.stop);
    await connecting;
    expect(await redis.get("taken-back")).toBeNull();
  });

  test("G02 a command that ioredis keeps while Redis is down is void by the time that it runs", async () => {
    const late = await lateRedis(server);
    const redis = opened(new Redis({ port: late.port, retryStrategy: () => 10, maxRetriesPerRequest: null }));
    redis.on("error", () => {});
    const client = ioredisClient(redis);
    await expectAbort(client, ["EVAL", acquireScript.source, 3, lockKey, fenceKey, voidKey, "tA", 60_000, ""]);
    const rolledBack = release(client, 60_000);
    await late.start();
    closers.push(late.stop);
    expect(await rolledBack).toBe("deleted"); // kept too, and run after the acquire
    expect(await acquire(client)).toMatchObject({ type: "cancelled" });
    expect(await admin.exists(lockKey)).toBe(0);
  });

  test("G03 a client of the caller's keeps its listeners, and the death of Redis is an unknown outcome, and then a loss", async () => {
    const mortal = await startRedis();
    const ioredis = opened(new Redis({ port: mortal.port, retryStrategy: () => null, maxRetriesPerRequest: 0 }));
    const nodeRedis = createClient({ socket: { port: mortal.port, reconnectStrategy: false } });
    for (const redis of [ioredis, nodeRedis]) redis.on("error", () => {});
    await Promise.all([ioredis.ping(), nodeRedis.connect()]);
    const listeners = (): unknown =>
      [ioredis, nodeRedis].map((redis) => redis.eventNames().map((event) => [event, redis.listeners(event)]));
    const before = listeners();
    const both = [ioredisClient(ioredis), nodeRedisClient(nodeRedis)];
    for (const client of both) expect(await client.execute(["PING"])).toBe("PONG");
    const leases: Lease[] = [];
    const untilLost = async (lease: Lease): Promise<void> => {
      leases.push(lease);
      await new Promise((resolve) => lease.signal.addEventListener("abort", resolve));
    };
    const losses = both.map((client, place) =>
      lockError(createLock(client, { leaseMs: 500 }).withLock(`job ${place}`, untilLost), "lost"),
    );
    while (leases.length < both.length) await ioredis.ping();
    process.kill(mortal.pid, "SIGSTOP");
    const unanswered = both.map((client) => rejection(client.execute(["PING"])));
    await mortal.stop();
    for (const error of await Promise.all(unanswered)) expect(error).not.toSatisfy(isReplyError);
    for (const { lostBy } of await Promise.all(losses)) expect(lostBy).toBe("expired");
    expect(listeners()).toEqual(before);
  });

  test("G09 a client of a second installed copy, a subclass and a Proxy around either are accepted", async () => {
    class Mine extends Redis {}
    const mine = opened(new Mine(server.port));
    await expectFullLifecycle(ioredisClient(mine));
    await expectFullLifecycle(ioredisClient(opened(new Redis5(server.port))));
    await expectFullLifecycle(ioredisClient(proxied(mine)));
    const redis = await connected(createClient(at(server)));
    await expectFullLifecycle(nodeRedisClient(redis.withCommandOptions({ asap: true })));
    await expectFullLifecycle(nodeRedisClient(proxied(redis)));
  });
});

describeRedis("a Redis Cluster of three masters", () => {
  let cluster: RunningCluster;
  beforeAll(async () => {
    cluster = await startCluster();
  }, 30_000);
  afterAll(() => cluster.stop());

  const clusters = { "ioredis 6": Cluster, "ioredis 5": Cluster5 };
  test.for(Object.entries(clusters))("G01 the full lifecycle passes on a Cluster of %s", async ([, ClusterOf]) => {
    const redis = new ClusterOf([{ host: "127.0.0.1", port: cluster.port }]);
    const client = ioredisClient(redis);
    expect(client.label).toBe("cluster");
    await expectFullLifecycle(client);
    redis.disconnect();
  });

  test.for(Object.entries(clusters))(
    "E06 the slot is that of the prefixed key on a Cluster of %s",
    async ([, ClusterOf]) => {
      const masters = cluster.ports.map((port) => new Redis(port));
      await Promise.all(masters.map((master) => master.flushall()));
      // Without redirections a command fails that goes to the master of another slot.
      const settings = { keyPrefix: "app{1}:", maxRedirections: 0 };
      const redis = new ClusterOf([{ host: "127.0.0.1", port: cluster.port }], settings);
      await expectFullLifecycle(ioredisClient(redis));
      redis.disconnect();
      const keys = await Promise.all(masters.map((master) => master.keys("*")));
      expect(keys.flat()).toEqual([`app{1}:${fenceKey}`]);
      for (const master of masters) master.disconnect();
    },
  );

  test("G01 the full lifecycle passes on a cluster of redis 6, wrapped as documented", async () => {
    const redis = createCluster({ rootNodes: [{ url: `redis://127.0.0.1:${cluster.port}` }] });
    redis.on("error", () => {});
    await redis.connect();
    expect(() => nodeRedisClient(Object(redis))).toThrow(/as it is a cluster or Sentinel/);
    const sendCommand = (args: string[], options?: object) => redis.sendCommand(args[3], false, args, options);
    await expectFullLifecycle(nodeRedisClient({ sendCommand }));
    redis.destroy();
  });

  const acquireMany = (client: CommandClient) =>
    Promise.all(Array.from({ length: 100 }, (_, index) => acquire(client, `lock:{E07:${index}}`)));

  test("E07 a hundred locks at once are granted on an auto-pipelining Cluster of ioredis 6", async () => {
    const redis = new Cluster([{ host: "127.0.0.1", port: cluster.port }], { enableAutoPipelining: true });
    const replies = await acquireMany(ioredisClient(redis));
    expect(replies.filter((reply) => reply?.type === "granted")).toHaveLength(100);
    redis.disconnect();
  });

  test("E07 an auto-pipelining Cluster of ioredis 5 says which setting to change, and works with it", async () => {
    const nodes = [{ host: "127.0.0.1", port: cluster.port }];
    const settings = { enableAutoPipelining: true };
    const broken = new Cluster5(nodes, settings);
    expect(await rejection(acquireMany(ioredisClient(broken)))).toMatchObject({
      code: "config",
      message: expect.stringContaining('autoPipeliningIgnoredCommands to ["EVAL", "EVALSHA"]'),
    });
    broken.disconnect();
    const mended = new Cluster5(nodes, { ...settings, autoPipeliningIgnoredCommands: ["EVAL", "EVALSHA"] });
    const replies = await acquireMany(ioredisClient(mended));
    expect(replies.filter((reply) => reply?.type === "granted")).toHaveLength(100);
    mended.disconnect();
  });
});

describe("what is no client, or no reply", () => {
  const execute = (): unknown => "sent";
  const wrong = [
    [ioredisClient, { sendCommand: execute }, "ioredis", "it has no call method: wrap it with nodeRedisClient"],
    [ioredisClient, { exec: execute }, "ioredis", "it has no call method: wrap it with upstashClient"],
    [ioredisClient, { execute }, "ioredis", "it has no call method: use it as it is"],
    [ioredisClient, undefined, "ioredis", "it has no call method: pass an instance of ioredis"],
    [
      nodeRedisClient,
      { call: execute, sendCommand: execute },
      "node-redis",
      "it is one of ioredis: wrap it with ioredisClient",
    ],
    [nodeRedisClient, { exec: execute }, "node-redis", "it has no sendCommand method: wrap it with upstashClient"],
    [nodeRedisClient, { execute }, "node-redis", "it has no sendCommand method: use it as it is"],
    [nodeRedisClient, "redis://", "node-redis", "it has no sendCommand method: pass the result of createClient()"],
  ] as const;
  test.for(wrong)("G01 %o is refused at construction of %o", ([factory, client, kind, problem]) => {
    const message = `Cannot use the client as one of ${kind} as ${problem}`;
    expect(() => Reflect.apply(factory, undefined, [client])).toThrow(
      expect.objectContaining({ code: "config", message }),
    );
  });

  const answers = [
    ["no", ["0", 0, 0n, null, false]],
    ["yes", ["1", 1, 1n, true]],
    ["neither", [undefined, {}, new Map(), Symbol("reply"), "yes", "", 1.5, 2, [1], 2n ** 64n]],
  ] as const;
  const meanings: Record<string, string> = { absent: "no", deleted: "yes", extended: "yes" };
  /** What a script says through clients that give such replies. */
  const clientsThatGive = (reply: unknown): CommandClient[] => [
    ioredisClient({ call: async () => reply }),
    nodeRedisClient({ sendCommand: async () => reply }),
    bunClient({ send: async () => reply }),
    upstashClient({ exec: async () => reply }),
  ];
  const told = async (asking: Promise<string | undefined>): Promise<unknown> => {
    const verdict = await asking.catch((error: unknown) => (isReplyError(error) ? error : undefined));
    return typeof verdict === "string" ? meanings[verdict] : (verdict ?? "neither");
  };
  for (const [meaning, replies] of answers) {
    test.for(replies.map((reply) => [reply]))(`B10 the reply %o means ${meaning}`, async ([reply]) => {
      for (const client of clientsThatGive(reply)) expect(await told(release(client))).toBe(meaning);
      for (const client of clientsThatGive([reply, 5])) {
        const extending = run(client, extendScript, [lockKey], ["tA", 90_000]);
        expect(await told(extending.then((answer) => answer?.type))).toBe(meaning);
      }
    });
  }

  test("an error of Redis is told by its text where a minifier has renamed its class", async () => {
    class e extends Error {}
    const reject = (message: string) => async () => {
      throw Object.assign(new e(message), { command: { args: ["secret"] } });
    };
    for (const client of [
      ioredisClient({ call: reject("NOSCRIPT No matching script") }),
      nodeRedisClient({ sendCommand: reject("NOSCRIPT No matching script") }),
    ]) {
      expect(await rejection(client.execute(["EVALSHA", "f", 0]))).toMatchObject({
        name: "ReplyError",
        code: "NOSCRIPT",
      });
    }
    const lost = await rejection(ioredisClient({ call: reject("Connection is closed.") }).execute(["PING"]));
    expect(lost).not.toSatisfy(isReplyError);
    expect(Object.keys(Object(lost))).toEqual([]);
  });
});

describe("labels", () => {
  const lazy = { lazyConnect: true, password: "secret" } as const;
  test.for([
    [ioredisClient(new Redis({ ...lazy, host: "eu.example", port: 6380 })), "eu.example:6380"],
    [ioredisClient(new Redis5("redis://me:secret@eu.example:6380", lazy)), "eu.example:6380"],
    [ioredisClient(new Redis({ ...lazy, path: "/run/redis.sock" })), "/run/redis.sock"],
    [ioredisClient(new Redis({ ...lazy, sentinels: [{ host: "sentinel.example" }], name: "main" })), "main"],
    [ioredisClient(new Redis(lazy), { label: "eu" }), "eu"],
    [nodeRedisClient(createClient({ url: "rediss://me:secret@eu.example" })), "eu.example:6379"],
    [nodeRedisClient(createClient5({ url: "redis://me:secret@eu.example:6380/1" })), "eu.example:6380"],
    [nodeRedisClient(createClient({ socket: { path: "/run/redis.sock", tls: false } })), "/run/redis.sock"],
    [nodeRedisClient(createClient({ socket: { port: 6380 } })), "localhost:6380"],
    [nodeRedisClient(createClient(), { label: "eu" }), "eu"],
    [nodeRedisClient(createClient()), undefined],
  ] as const)("%o is named %s", ([client, label]) => {
    expect(client.label).toBe(label);
  });
});

interface NodeRedisInstance {
  on(event: "error", listener: () => void): unknown;
  connect(): Promise<unknown>;
  destroy(): void;
}

const at = ({ port }: RunningRedis) => ({ socket: { port } });

/** A thin Proxy, as tracing libraries put around a client. */
function proxied<T extends object>(client: T): T {
  return new Proxy(client, {
    get(target, name) {
      const value: unknown = Reflect.get(target, name);
      return typeof value === "function" ? value.bind(target) : value;
    },
  });
}

/** What a script of the locks says through this client. */
async function run<Result>(
  client: CommandClient,
  { source, decode }: Script<Result>,
  keys: readonly string[],
  args: readonly (string | number)[],
): Promise<Result | undefined> {
  return decode(await client.execute(["EVAL", source, keys.length, ...keys, ...args]));
}

const acquire = (client: CommandClient, lock = lockKey) =>
  run(client, acquireScript, [lock, `${lock}:fence`, `${lock}:void:tA`], ["tA", 60_000, ""]);

async function release(client: CommandClient, tombstoneMs = 0): Promise<string | undefined> {
  return (await run(client, releaseScript, [lockKey, voidKey], ["tA", tombstoneMs]))?.type;
}

/** Acquires, inspects, extends and releases: every reply is read as it should be. */
async function expectFullLifecycle(client: CommandClient): Promise<void> {
  expect(await acquire(client)).toMatchObject({ type: "granted", remainingMs: 60_000 });
  expect(await run(client, inspectScript, [lockKey, fenceKey], [])).toMatchObject({ type: "held", token: "tA" });
  expect(await run(client, extendScript, [lockKey], ["tA", 90_000])).toMatchObject({
    type: "extended",
    remainingMs: 90_000,
  });
  expect(await release(client)).toBe("deleted");
  expect(await release(client)).toBe("absent");
  expect(await run(client, extendScript, [lockKey], ["tA", 90_000])).toMatchObject({ type: "absent" });
}

async function expectAbort(client: CommandClient, command: readonly (string | number)[]): Promise<void> {
  const controller = new AbortController();
  const reason = new Error("too late");
  const attempt = rejection(client.execute(command, { signal: controller.signal }));
  controller.abort(reason);
  expect(await attempt).toBe(reason);
}

/** Converts a reply, part by part. */
function converted(convert: (part: unknown) => unknown): (reply: unknown) => unknown {
  return (reply) => (Array.isArray(reply) ? reply.map(converted(convert)) : convert(reply));
}

/** A port at which Redis is not there until it is started. */
async function lateRedis(behind: RunningRedis) {
  const reserved = createServer();
  const port = await listen(reserved);
  await new Promise((resolve) => reserved.close(resolve));
  const sockets = new Set<{ destroy(): void }>();
  const proxy = createServer((socket) => {
    const upstream = connect(behind.port, "127.0.0.1");
    for (const end of [socket, upstream]) {
      sockets.add(end);
      end.on("error", () => {});
    }
    socket.pipe(upstream).pipe(socket);
  });
  return {
    port,
    start: () => new Promise<void>((resolve) => proxy.listen(port, "127.0.0.1", resolve)),
    stop: () => {
      for (const socket of sockets) socket.destroy();
      proxy.close();
    },
  };
}
