/**
 * Public reports on releasing, and on what errors say. Each test is named by the id of its report.
 */
import { inspect } from "node:util";
import { describe, expect, test } from "vitest";
import { ioredisClient } from "../../adapters/ioredis.ts";
import { nodeRedisClient } from "../../adapters/node-redis.ts";
import { restClient } from "../../adapters/rest.ts";
import { upstashClient } from "../../adapters/upstash.ts";
import { type CommandClient, type Reply, ReplyError } from "../../src/command.ts";
import type { LockError } from "../../src/errors.ts";
import { inspectLock } from "../../src/inspect.ts";
import { createLock } from "../../src/lock.ts";
import { bothLocks, key } from "../redlock/world.ts";
import { answer, fetchDouble } from "../support/fetch-double.ts";
import { oneRedis } from "../support/one-redis.ts";
import { lockError, rejection } from "../support/rejection.ts";
import { settle } from "../support/virtual-clock.ts";

describe.for(bothLocks)("C01 the release of a lease that is over: %s", ([, build]) => {
  test("C01 says expired, with one request to each node and no wait, and already-released the second time", async () => {
    const { lock, clock, nodes, verbs } = build({ leaseMs: 100 });
    const lease = await lock.acquire("job");
    await clock.advance(150);
    const began = clock.monotonic;
    expect(await lease.release()).toBe("expired");
    expect(clock.monotonic).toBe(began);
    expect(await lease.release()).toBe("already-released");
    expect(verbs()).toEqual(nodes.map(() => ["acquire", "release"]));
  });

  test("C01 says stolen where another has the lock by then, and leaves that one's keys", async () => {
    const { lock, other, clock, run, nodes, verbs } = build({ leaseMs: 100 });
    const lease = await lock.acquire("job");
    await clock.advance(150);
    const { token } = await other.acquire("job");
    expect(await lease.release()).toBe("stolen");
    await clock.advance(1); // so that all have answered
    expect(await run("GET", key)).toEqual(nodes.map(() => token));
    expect(verbs()).toEqual(nodes.map(() => ["acquire", "release"]));
  });
});

describe.for(bothLocks)("C02 a release that fails: %s", ([, build]) => {
  test.for([[{ fail: new Error("ECONNRESET") }], [{ lose: "request" }]] as const)(
    "C02 a release that fails with %o keeps the token: a second one frees the lock",
    async ([fault]) => {
      const { lock, clock, run, nodes } = build({}, ({ verb, place }) =>
        verb === "release" && place === 0 ? fault : undefined,
      );
      const lease = await lock.acquire("job");
      await clock.advance(1); // so that the key is on all
      await lockError(clock.until(lease.release()), "unavailable");
      expect(lease.remaining()).toBe(0);
      expect(await run("EXISTS", key)).toEqual(nodes.map(() => 1));
      expect(await clock.until(lease.release())).toBe("released");
      await clock.advance(1);
      expect(await run("EXISTS", key)).toEqual(nodes.map(() => 0));
    },
  );
});

test.for(bothLocks)("C02 an abort during the release does not keep it from freeing the lock: %s", async ([, build]) => {
  const { lock, clock, run, nodes, sentOf } = build({}, ({ verb }) =>
    verb === "release" ? { requestMs: 50 } : undefined,
  );
  const controller = new AbortController();
  const { signal } = controller;
  const lease = await lock.acquire("job", { signal });
  await clock.advance(1); // so that the key is on all
  const releasing = lease.release();
  controller.abort("enough");
  expect(lease.remaining()).toBe(0);
  expect(await clock.until(releasing)).toBe("released");
  await clock.advance(1);
  expect(await run("EXISTS", key)).toEqual(nodes.map(() => 0));

  const late = new AbortController();
  const running = lock.withLock("job", { signal: late.signal }, () => 42);
  while (sentOf("release").length < 2 * nodes.length) await clock.advance(1);
  late.abort("enough");
  expect(await clock.until(running)).toBe(42);
  await clock.advance(50);
  expect(await run("EXISTS", key)).toEqual(nodes.map(() => 0));
});

describe.for(bothLocks)("C03 what the task came to is never hidden by the release: %s", ([, build]) => {
  const broken = () =>
    build({}, ({ verb, place }) => (verb === "release" && place < 2 ? { fail: new Error("ECONNRESET") } : undefined));

  test("C03 the task's error is thrown as it is, and the release's goes to the observer", async () => {
    const { lock, clock, events, nodes } = broken();
    const mine = new Error("mine");
    await expect(clock.until(lock.withLock("job", () => Promise.reject(mine)))).rejects.toBe(mine);
    const failure = events.find(({ type }) => type === "release-failed");
    expect(failure).toMatchObject({ code: "unavailable", nodes: nodes.map(() => ({ reason: "ECONNRESET" })) });
  });

  test("C03 the task's value is given, and the release's error goes to the observer", async () => {
    const { lock, clock, types } = broken();
    expect(await clock.until(lock.withLock("job", () => 42))).toBe(42);
    expect(types()).toContain("release-failed");
  });

  const mine = new Error("mine");
  test.for<[what: string, task: () => unknown, outcome: object]>([
    [
      "throws at once",
      () => {
        throw mine;
      },
      { status: "rejected", reason: mine },
    ],
    ["returns no promise", () => 42, { status: "fulfilled", value: 42 }],
  ])("C03 a task that %s leaves the lock free", async ([, task, outcome]) => {
    const { lock, clock, run, nodes } = build();
    expect(await clock.until(Promise.allSettled([lock.withLock("job", task)]))).toEqual([outcome]);
    await settle(); // a round is over before all have answered
    expect(await run("EXISTS", key)).toEqual(nodes.map(() => 0));
  });
});

describe.for(bothLocks)("C04 a server that refuses the delete: %s", ([, build]) => {
  const refusing = (message: string, times: number) =>
    build({ leaseMs: 1_000 }, ({ verb, place }) =>
      verb === "release" && place < times ? { fail: new ReplyError(message) } : undefined,
    );

  test.for([
    ["MISCONF Redis is configured to save RDB snapshots, but it's currently unable to persist to disk.", "unavailable"],
    ["READONLY You can't write against a read only replica.", "unavailable"],
    ["NOPERM this user has no permissions to run the 'del' command", "config"],
  ] as const)("C04 %s is told, and never taken for an expiry", async ([message, code]) => {
    const { lock, clock, run, events, types, nodes } = refusing(message, 1);
    const lease = await lock.acquire("job");
    await settle(); // so that the key is on all
    const error = await lockError(clock.until(lease.release()), code);
    expect(error.cause).toMatchObject({ code: message.split(" ")[0], message });
    expect(error.nodes).toMatchObject(nodes.map(() => ({ outcome: "no-vote", reason: message })));
    expect(events.at(-1)).toMatchObject({ type: "release-failed", code });
    expect(types()).not.toContain("released");
    expect(await run("EXISTS", key)).toEqual(nodes.map(() => 1));
    await clock.advance(1_001);
    expect(await run("EXISTS", key)).toEqual(nodes.map(() => 0));
  });

  test("C04 nothing renews after it", async () => {
    const { lock, clock, run, nodes, verbs } = refusing("MISCONF Redis is configured to save RDB snapshots", 2);
    await clock.until(lock.withLock("job", () => 42));
    await clock.advance(1_001);
    expect(verbs()).toEqual(nodes.map(() => ["acquire", "release", "release"]));
    expect(await run("EXISTS", key)).toEqual(nodes.map(() => 0));
  });
});

describe("C05 a client that never settles", () => {
  /** A lock whose client falls silent when told. */
  function falling() {
    const world = oneRedis({ leaseMs: 10_000 });
    let silent = false;
    const client: CommandClient = {
      execute: (command) => (silent ? new Promise<Reply>(() => {}) : world.redis.execute(command)),
    };
    const fall = (): void => {
      silent = true;
    };
    return { lock: createLock(client, {}, world.env), client, fall, env: world.env };
  }

  test("C05 acquire() is unavailable in finite time by default", async () => {
    const { lock, fall, env } = falling();
    fall();
    const began = env.clock.monotonic;
    await lockError(env.clock.until(lock.acquire("job")), "unavailable");
    expect(env.clock.monotonic - began).toBeLessThanOrEqual(10_000 + 2_500);
  });

  test("C05 extend() and release() are unavailable within a quarter of the lease", async () => {
    const { lock, fall, env } = falling();
    const lease = await lock.acquire("job");
    fall();
    const began = env.clock.monotonic;
    await lockError(env.clock.until(lease.extend()), "unavailable");
    await lockError(env.clock.until(lease.release()), "unavailable");
    expect(env.clock.monotonic - began).toBeLessThanOrEqual(5_000);
  });

  test("C05 withLock() settles with the task's value", async () => {
    const { lock, fall, env } = falling();
    const running = lock.withLock("job", () => {
      fall();
      return 42;
    });
    expect(await env.clock.until(running, 5_000)).toBe(42);
  });

  test("C05 inspectLock() says that it cannot tell", async () => {
    const { client, fall, env } = falling();
    fall();
    const state = await env.clock.until(inspectLock(client, "job", {}, env), 5_000);
    expect(state).toMatchObject({ verdict: "unreachable", held: false });
  });
});

describe("C06 what errors print", () => {
  const restToken = "rest-token-that-must-not-be-logged";
  const password = "password-that-must-not-be-logged";

  // As indiscreet as the libraries themselves, and worse.
  const ioredis = {
    options: { host: "eu.example", port: 6379, password },
    async call(name: string, ...args: unknown[]) {
      const error = new Error(`ERR unknown command '${name}', with args beginning with: ${args}`);
      throw Object.assign(error, { command: { name, args } });
    },
  };
  const nodeRedis = {
    options: { password, socket: { host: "eu.example", port: 6379 } },
    async sendCommand(args: string[]) {
      throw new Error(`Socket closed while sending ${args}`);
    },
  };
  const upstash = {
    client: { baseUrl: "https://eu.example", headers: { authorization: `Bearer ${restToken}` } },
    async exec(command: unknown[]) {
      throw new Error(`ERR max retries, command was: ${JSON.stringify(command)}`);
    },
  };
  const rest = { url: "https://eu.example", token: restToken };
  const clients: Record<string, CommandClient> = {
    "restClient() that cannot connect": restClient({
      ...rest,
      fetch: () => Promise.reject(new TypeError(`fetch failed: Bearer ${restToken}`)),
    }),
    "restClient() that is answered by a proxy": restClient({
      ...rest,
      fetch: fetchDouble(({ body }) => answer(502, `<html>${restToken} ${body}</html>`)).fetch,
    }),
    ioredis: ioredisClient(ioredis),
    "node-redis": nodeRedisClient(nodeRedis),
    "@upstash/redis": upstashClient(upstash),
  };

  test.for(Object.entries(clients))(
    "C06 over %s: code, name and each node's answer, and no secret",
    async ([, client]) => {
      const tokens: string[] = [];
      const spying: CommandClient = {
        ...client,
        execute(command, options) {
          tokens.push(...command.map(String).filter((part) => /^t[0-9a-f]{32}$/.test(part)));
          return client.execute(command, options);
        },
      };
      const events: unknown[] = [];
      const lock = createLock(spying, { waitMs: 0, observe: (event) => void events.push(event) });
      const error = (await rejection(lock.acquire("job"))) as LockError;
      expect(tokens.length).toBeGreaterThan(0);
      const json = JSON.stringify(error);
      expect(json).toContain(error.code);
      expect(json).toContain('"lockName":"job"');
      expect(json).toContain('"label":"eu.example');
      const [{ reason }] = JSON.parse(json).nodes;
      expect(reason).toMatch(/./);
      expect(reason).toBe(error.nodes?.[0]?.reason);
      for (const printed of [
        json,
        inspect(error, { depth: 10, showHidden: true }),
        String(error.stack),
        JSON.stringify(events),
      ]) {
        for (const secret of [restToken, password, ...tokens]) expect(printed).not.toContain(secret);
      }
    },
  );
});
