/** What was found by trying to break things: each of these went wrong once. */
import { inspect } from "node:util";
import { Redis } from "ioredis";
import { describe, expect, test, vi } from "vitest";
import { ioredisClient } from "../../adapters/ioredis.ts";
import { memoryClient } from "../../adapters/memory/index.ts";
import { restClient } from "../../adapters/rest.ts";
import { restServer } from "../../adapters/rest-server.ts";
import type { GetOptions } from "../../src/cache/options.ts";
import { createCache } from "../../src/cache.ts";
import type { Command, CommandClient, Reply } from "../../src/command.ts";
import { inspectLock } from "../../src/inspect.ts";
import { createLock } from "../../src/lock.ts";
import { createRedlock } from "../../src/redlock.ts";
import { oneRedis } from "../support/one-redis.ts";
import { describeRedis, startRedis } from "../support/redis.ts";
import { lockError, rejection } from "../support/rejection.ts";
import { lasting, settle, virtualEnvironment } from "../support/virtual-clock.ts";

describe("a batch that all have given up", () => {
  const served = () => {
    const app = restServer(memoryClient(), { token: "t" });
    const fetch = vi.fn(async (url: string, request: object) => app.request(url, request));
    return { fetch, client: restClient({ url: "http://x.test", token: "t", batch: true, fetch }) };
  };

  test("is not joined by who comes next", async () => {
    const { client } = served();
    for (let turns = 0; turns < 70; turns += 1) {
      const controller = new AbortController();
      const given = client.execute(["PING"], { signal: controller.signal });
      for (let turn = 0; turn < turns; turn += 1) await undefined;
      controller.abort("enough");
      await expect(given).rejects.toBe("enough");
      expect(await client.execute(["ECHO", `after ${turns}`])).toBe(`after ${turns}`);
    }
  });

  test("fails no release of another holder", async () => {
    const lock = createLock(served().client);
    const lease = await lock.acquire("held");
    const controller = new AbortController();
    const cancelled = lock.acquire("other", { signal: controller.signal });
    controller.abort();
    await lockError(cancelled, "aborted");
    expect(await lease.release()).toBe("released");
  });
});

describeRedis("restServer() over one connection", () => {
  test.for([
    "SELECT 3",
    "select 3",
    "MULTI",
    "MONITOR",
    "BLPOP none 0",
    "CLIENT REPLY OFF",
    "QUIT",
    "SUBSCRIBE c",
    "xread BLOCK 0 STREAMS s $",
  ])("passes on no %s, which would change what others' commands mean", async (line) => {
    const server = await startRedis();
    const redis = new Redis(server.port, "127.0.0.1");
    const app = restServer(ioredisClient(redis), { token: "t" });
    const post = async (path: string, body: unknown) => {
      const headers = { authorization: "Bearer t" };
      const response = await app.request(path, { method: "POST", headers, body: JSON.stringify(body) });
      return { status: response.status, body: await response.json() };
    };
    const [name = "", ...args] = line.split(" ");
    const error = `ERR Command is not available: '${name}'`;
    expect(await post("/", [name, ...args])).toEqual({ status: 400, body: { error } });
    expect((await post("/pipeline", [[name, ...args], ["PING"]])).body).toEqual([{ error }, { result: "PONG" }]);
    expect((await post("/", ["SET", "key", "1"])).body).toEqual({ result: "OK" });
    redis.disconnect();
    await server.stop();
  });

  test.for(["valueOf", "hasOwnProperty", "__proto__", "__defineGetter__", "toString"])(
    "lives on after the command %s, and so does a client of ioredis",
    async (name) => {
      const server = await startRedis();
      const redis = new Redis(server.port, "127.0.0.1");
      const client = ioredisClient(redis);
      await expect(client.execute([name])).rejects.toMatchObject({ name: "ReplyError", code: "ERR" });
      const app = restServer(client, { token: "t" });
      const headers = { authorization: "Bearer t" };
      const response = await app.request("/", { method: "POST", headers, body: JSON.stringify([name]) });
      expect(response.status).toBe(400);
      expect(await client.execute(["PING"])).toBe("PONG");
      redis.disconnect();
      await server.stop();
    },
  );
});

test("restServer() shows no token of another type, and takes no client without execute", () => {
  const message = (make: () => unknown): string => {
    try {
      make();
    } catch (error) {
      return String(error);
    }
    return "nothing";
  };
  const token = Buffer.from("s3cret") as unknown as string;
  expect(message(() => restServer(memoryClient(), { token }))).toMatch(
    /Cannot use token as .*current value is object$/,
  );
  for (const client of [undefined, {}, null]) {
    expect(message(() => restServer(client as unknown as CommandClient, { token: "t" }))).toContain("execute method");
  }
});

test("what answers a whole batch is quoted to none of its callers, as it may quote the others", async () => {
  const fetch = async (_: string, { body }: { readonly body: string }) =>
    new Response(`cannot pass on ${body}`, { status: 502 });
  const client = restClient({ url: "http://x.test", token: "t", batch: true, fetch });
  const lock = createLock(client, { waitMs: 0, leaseMs: 1_000 });
  const errors = await Promise.all(["a", "b"].map((name) => lockError(lock.acquire(name), "unavailable")));
  for (const error of errors) {
    expect(inspect(error, { depth: 9 }) + JSON.stringify(error)).not.toMatch(/\bt[0-9a-f]{8}/);
  }
});

test.for([
  ["as it was sent", (text: string) => text],
  ["as JSON", (text: string) => JSON.stringify(text)],
  ["cut in the midst of a value", (text: string) => text.slice(0, 30)],
  ["cut in the midst of a token", (text: string) => text.slice(0, 12)],
] as const)("a proxy that quotes a command, %s, has no part of it shown", async ([, quoted]) => {
  const execute = (command: Command): Promise<Reply> =>
    Promise.reject(new Error(`status 502: cannot pass on: ${command.slice(4).map(String).map(quoted).join(" ")}`));
  const cache = createCache({ execute });
  const shown = async (call: Promise<unknown>): Promise<string> => {
    const error = await rejection(call);
    return inspect(error, { depth: 9 }) + JSON.stringify(error);
  };
  const text = await shown(cache.set("k", { card: "4111-1111-1111-1111", rest: "y".repeat(300) }, { freshMs: 1 }));
  expect(text).toContain("status 502: cannot pass on: ");
  expect(text).not.toMatch(/4111|\bt[0-9a-f]{8}/);
  expect(await shown(createLock({ execute }, { waitMs: 0 }).acquire("k"))).not.toMatch(/\bt[0-9a-f]{8}/);
});

test("options that are null are none, as callers without types give them", async () => {
  const none = null as unknown as undefined;
  const client = memoryClient();
  for (const lock of [createLock(client, none), createRedlock([client], none)]) {
    await (await lock.acquire("job", none)).release();
    expect(await (await lock.tryAcquire("job", none))?.release()).toBe("released");
    expect(await lock.withLock("job", none, () => 1)).toBe(1);
    expect(await lock.tryWithLock("job", none, () => 1)).toEqual({ ran: true, value: 1 });
  }
  const cache = createCache(client, none);
  await cache.invalidate("k", none);
  const error = await lockError(
    cache.get("k", none as unknown as GetOptions, () => 1),
    "config",
  );
  expect(error.message).toMatch(/^Cannot use freshMs as /);
  expect(await inspectLock(client, "job", none)).toMatchObject({ verdict: "free" });
});

describe("a client that rejects with anything", () => {
  test.for<unknown>([
    "soon",
    Number.NaN,
    "",
    {},
    -1,
    -60_000,
    -Infinity,
    5n,
    Symbol("soon"),
    { valueOf: () => -60_000 },
  ])("retryAfterMs %o makes no loop that spins, and no error that cannot be read", async (retryAfterMs) => {
    const env = virtualEnvironment();
    const failure = Object.assign(new Error("slow"), { retryAfterMs });
    const execute = vi.fn(() => Promise.reject(failure));
    const lock = createLock({ execute }, { waitMs: 600 }, env);
    const error = await lockError(env.clock.until(lock.acquire("job"), 700), "unavailable");
    expect(JSON.parse(JSON.stringify(error))).not.toHaveProperty("retryAfterMs");
    expect(execute.mock.calls.length).toBeLessThan(20);
  });

  test.for<unknown>([undefined, null, 7, {}, Symbol("OOM"), Object.create(null)])(
    "the code %o is none, and the outcome unknown",
    async (code) => {
      const env = virtualEnvironment();
      const failure = Object.assign(new Error("OOM no room"), { name: "ReplyError", code });
      const lock = createLock({ execute: () => Promise.reject(failure) }, { waitMs: 0 }, env);
      const { nodes } = await lockError(env.clock.until(lock.acquire("job")), "unavailable");
      expect(nodes).toMatchObject([{ outcome: "unknown", reason: "OOM no room" }]);
    },
  );
});

test("a waitUntil that rejects later is no unhandled rejection", async () => {
  const waitUntil = vi.fn(async () => {
    throw new Error("gone");
  });
  const lock = createLock(memoryClient(), { waitUntil });
  expect(await lock.withLock("job", () => 7)).toBe(7);
  await settle();
  expect(waitUntil).toHaveBeenCalled();
});

test("options that change after the call change nothing", async () => {
  const { lock, other, clock, run } = oneRedis();
  const holder = await other.acquire("job", { leaseMs: 400 });
  const options: Record<string, unknown> = { waitMs: 2_000, maxHoldMs: 60_000 };
  const running = lock.withLock("job", options, () => lasting(clock, 10));
  Object.assign(options, { signal: {}, maxHoldMs: -1 });
  await holder.release();
  await clock.until(running);
  expect(clock.pending).toEqual([]);
  expect(await run("EXISTS", "lock:{job}")).toBe(0);
});

test.for([0, 60, 120, 150, 160, 167, 175, 190])(
  "a token that a server echoes after %i letters is nowhere, nor half of it",
  async (letters) => {
    const told: unknown[] = [];
    let token = "";
    const client: CommandClient = {
      execute: async (command): Promise<Reply> => {
        token ||= String(command.find((part) => /^t[0-9a-f]{32}$/.test(String(part))));
        throw Object.assign(new Error(`ERR ${"p ".repeat(letters / 2)}${token} and so on`), {
          name: "ReplyError",
          code: "ERR",
        });
      },
    };
    const lock = createLock(client, { waitMs: 0, observe: (event) => void told.push(event) });
    const error = await lockError(lock.acquire("job"), "unavailable");
    const printed = JSON.stringify([error, told, error.message]);
    expect(token).toMatch(/^t/);
    expect(printed).not.toContain(token.slice(0, 8));
  },
);

test.for([
  [1, null, 2_000],
  [1, -5, 2_000],
  [1, 0, 2_000],
])("%j is no grant", async (answer) => {
  const { lock, clock } = oneRedis({ waitMs: 0 }, { always: { answer: answer as Reply } });
  await lockError(clock.until(lock.acquire("job")), "unavailable");
});
