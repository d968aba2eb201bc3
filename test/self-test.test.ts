import { Redis } from "ioredis";
import { describe, expect, test } from "vitest";
import { ioredisClient } from "../adapters/ioredis.ts";
import { memoryClient } from "../adapters/memory/index.ts";
import { restClient } from "../adapters/rest.ts";
import { type Command, type CommandClient, type Reply, ReplyError } from "../src/command.ts";
import { acquireScript } from "../src/scripts/acquire.ts";
import { releaseScript } from "../src/scripts/release.ts";
import { type Check, selfTest } from "../src/self-test.ts";
import { type Fault, faultyClient } from "./support/faulty-client.ts";
import { describeRedis, startRedis, startRestRedis } from "./support/redis.ts";
import { lockError } from "./support/rejection.ts";
import { virtualEnvironment } from "./support/virtual-clock.ts";

const codes = ["exclusive", "own-token", "wrong-token", "tombstone", "expiry", "fence"];

/** A Redis, and a way to it on which anything may happen to the n-th command. */
function world(fault: (command: Command, place: number) => Fault | undefined = () => undefined) {
  const env = virtualEnvironment();
  const redis = memoryClient({ label: "local" }, env);
  const client = faultyClient(redis, env.clock, fault);
  const size = (): Promise<Reply> => redis.execute(["DBSIZE"]);
  return { env, redis, client, size };
}

function isScript({ source }: { readonly source: string }, [, text]: Command): boolean {
  return text === source;
}

describe("selfTest()", () => {
  test("proves six promises on a Redis that keeps them, one after another, and leaves nothing behind", async () => {
    const { env, client, size } = world();
    const seen: Check[] = [];
    const onCheck = (check: Check): void => void seen.push(check);
    const { label, passed, checks } = await env.clock.until(selfTest(client, { onCheck }, env));
    expect({ label, passed }).toEqual({ label: "local", passed: true });
    expect(checks.map(({ code }) => code)).toEqual(codes);
    expect(seen).toEqual(checks);
    expect(await size()).toBe(0);
    expect(env.clock.pending).toEqual([]);
  });

  test("uses a name of its own each time, under the prefix, and the scripts of every lock", async () => {
    const { env, client } = world();
    for (let run = 0; run < 2; run += 1) await env.clock.until(selfTest(client, { prefix: "app" }, env));
    const keys = new Set(client.sent.filter(([verb]) => verb === "EVAL").map((command) => command[3]));
    expect(keys.size).toBe(2);
    for (const key of keys) expect(key).toMatch(/^app:\{leasehold:self-test:t[0-9a-f]{32}\}$/);
    const used = client.sent.filter(
      (command) => !isScript(acquireScript, command) && !isScript(releaseScript, command),
    );
    expect(used.map(([verb]) => verb)).toEqual(["DEL", "DEL"]);
  });

  /** Servers that break one promise each. */
  const broken: Record<string, (redis: CommandClient) => CommandClient["execute"]> = {
    exclusive: (redis) => async (command) => {
      const reply = await redis.execute(command);
      if (!isScript(acquireScript, command) || !Array.isArray(reply) || reply[0] !== 0) return reply;
      return [1, Number(reply[1]) + 1, 1_000];
    },
    "own-token": (redis) => {
      let last = 0;
      return async (command) => {
        const reply = await redis.execute(command);
        if (!isScript(acquireScript, command) || !Array.isArray(reply) || reply[0] !== 1) return reply;
        last = Math.max(last + 1, Number(reply[1]));
        return [1, last, reply[2] ?? 0];
      };
    },
    "wrong-token": (redis) => async (command) => {
      if (isScript(releaseScript, command)) await redis.execute(["DEL", String(command[3])]);
      return redis.execute(command);
    },
    tombstone: (redis) => (command) => {
      const isRollBack = isScript(releaseScript, command) && command[6] !== 0;
      return redis.execute(isRollBack ? [...command.slice(0, 6), 0] : command);
    },
    expiry: (redis) => (command) => {
      const isShort = isScript(acquireScript, command) && Number(command[7]) < 30_000;
      return redis.execute(isShort ? [...command.slice(0, 7), 60_000] : command);
    },
    fence: (redis) => async (command) => {
      const reply = await redis.execute(command);
      if (isScript(acquireScript, command) && Array.isArray(reply)) return [reply[0] ?? 0, 7, reply[2] ?? 0];
      return reply;
    },
  };

  test.each(Object.entries(broken))(
    "finds a server that breaks the promise %j, and leaves nothing there",
    async (code, breaks) => {
      const { env, redis, size } = world();
      const client: CommandClient = { execute: breaks(redis) };
      const { passed, checks } = await env.clock.until(selfTest(client, {}, env));
      expect(passed).toBe(false);
      expect(checks.filter(({ kept }) => !kept).map((check) => check.code)).toContain(code);
      expect(await size()).toBe(0);
    },
  );

  test("does not take a slow machine for a lease that ended too early", async () => {
    let acquires = 0;
    const { env, client, size } = world((command) => {
      if (!isScript(acquireScript, command)) return undefined;
      acquires += 1;
      return acquires === 7 ? { requestMs: 400 } : undefined; // the try before the end of the short lease
    });
    expect(await env.clock.until(selfTest(client, {}, env))).toMatchObject({ passed: true });
    expect(await size()).toBe(0);
  });

  const steps = Array.from({ length: 10 }, (_, place) => place);

  test.each(steps.slice(0, -1))("aborted during command %i, it cleans up and says so", async (place) => {
    const controller = new AbortController();
    const { env, client, size } = world((_, at) => {
      if (at === place) controller.abort(new Error("Ctrl-C"));
      return { requestMs: 5, replyMs: 5 };
    });
    const error = await lockError(env.clock.until(selfTest(client, { signal: controller.signal }, env)), "aborted");
    expect(error.cause).toMatchObject({ message: "Ctrl-C" });
    expect(await size()).toBe(0);
    expect(env.clock.pending).toEqual([]);
  });

  test("aborted while it waits for the short lease to end, it does not wait", async () => {
    const controller = new AbortController();
    const { env, client, size } = world();
    const running = selfTest(client, { signal: controller.signal }, env);
    const outcome = lockError(running, "aborted");
    await env.clock.advance(100);
    controller.abort();
    await env.clock.advance(0);
    await outcome;
    expect(await size()).toBe(0);
  });

  test("aborted before it began, it sends nothing but what cleans up", async () => {
    const { env, client } = world();
    await lockError(selfTest(client, { signal: AbortSignal.abort() }, env), "aborted");
    expect(client.verbs).toEqual(["DEL"]);
  });

  test.each(steps)(
    "with the reply to command %i lost, it leaves a tombstone at most, which a late copy does not pass",
    async (place) => {
      let lost: Command = [];
      const { env, redis, client, size } = world((command, at) => {
        if (at !== place) return undefined;
        lost = command;
        return { lose: "request" };
      });
      await lockError(env.clock.until(selfTest(client, {}, env)), "unavailable");
      const left = isScript(acquireScript, lost) ? 1 : 0;
      expect(await size()).toBe(left);
      await redis.execute(lost); // it arrives after all
      expect(await size()).toBe(place === 5 ? 1 : left); // a roll-back brings its tombstone
      await env.clock.advance(120_001);
      expect(await size()).toBe(0);
    },
  );

  test("cleans up again where that fails, and says so where it cannot", async () => {
    const failing = (times: number) => {
      let left = times;
      return world(([verb]) => {
        if (verb !== "DEL" || left === 0) return undefined;
        left -= 1;
        return { fail: new Error("ECONNRESET") };
      });
    };
    const twice = failing(2);
    expect(await twice.env.clock.until(selfTest(twice.client, {}, twice.env))).toMatchObject({ passed: true });
    expect(await twice.size()).toBe(0);
    const always = failing(Infinity);
    const error = await lockError(always.env.clock.until(selfTest(always.client, {}, always.env)), "unavailable");
    expect(error.message).toMatch(/^Cannot clean up after testing "leasehold:self-test:t[0-9a-f]+" as ECONNRESET/);
  });

  test("aborted, and unable to clean up, it says so", async () => {
    const controller = new AbortController();
    const { env, client } = world(([verb]) => {
      controller.abort();
      return verb === "DEL" ? { fail: new Error("ECONNRESET") } : undefined;
    });
    const running = env.clock.until(selfTest(client, { signal: controller.signal }, env));
    expect((await lockError(running, "unavailable")).message).toContain("Cannot clean up after testing");
  });

  test("says what Redis said where it refuses, and refuses bad arguments", async () => {
    const { env, client } = world();
    const refusing = (text: string): CommandClient => ({ execute: () => Promise.reject(new ReplyError(text)) });
    const readOnly = refusing("READONLY You can't write against a read only replica.");
    const error = await lockError(env.clock.until(selfTest(readOnly, {}, env)), "unavailable");
    expect(error.message).toContain("READONLY");
    await lockError(env.clock.until(selfTest(refusing("NOAUTH Authentication required."), {}, env)), "config");
    for (const options of [{ prefix: "" }, { signal: "now" as never }, { onCheck: 1 as never }]) {
      await lockError(selfTest(client, options, env), "config");
    }
    expect(client.sent).toEqual([]);
    expect((await env.clock.until(selfTest(client, null as never, env))).passed).toBe(true);
  });
});

describeRedis("selfTest() on a real Redis", () => {
  test("passes over TCP and over REST, and leaves nothing behind", async () => {
    await using stack = new AsyncDisposableStack();
    const rest = await startRestRedis();
    stack.defer(rest.stop);
    const clients = [ioredisClient(rest.connection), restClient(rest)];
    for (const client of clients) {
      const { passed, checks } = await selfTest(client);
      expect(checks.filter(({ kept }) => !kept)).toEqual([]);
      expect(passed).toBe(true);
      expect(await rest.connection.dbsize()).toBe(0);
    }
  });

  test("passes for a user who may do no more than lock", async () => {
    await using stack = new AsyncDisposableStack();
    const server = await startRedis();
    stack.defer(server.stop);
    const admin = new Redis(server.port);
    stack.defer(() => admin.disconnect());
    const commands = ["+eval", "+evalsha", "+mget", "+set", "+get", "+del", "+pttl", "+pexpire", "+time"];
    await admin.call("ACL", "SETUSER", "lock", "on", "nopass", "~lock:*", "-@all", ...commands);
    const redis = new Redis({
      port: server.port,
      protocol: 2,
      username: "lock",
      password: "x",
      enableReadyCheck: false,
    });
    stack.defer(() => redis.disconnect());
    expect(await selfTest(ioredisClient(redis))).toMatchObject({ passed: true });
    expect(await admin.dbsize()).toBe(0);
  });
});
