import { describe, expect, test } from "vitest";
import { memoryClient } from "../adapters/memory/index.ts";
import { type Command, type CommandClient, type Reply, ReplyError } from "../src/command.ts";
import { LockError, type LockErrorCode } from "../src/errors.ts";
import { createLock } from "../src/lock.ts";
import { runScript } from "../src/script.ts";
import { acquireScript } from "../src/scripts/acquire.ts";
import { oneRedis } from "./support/one-redis.ts";
import { lockError } from "./support/rejection.ts";
import { settle, virtualEnvironment } from "./support/virtual-clock.ts";

/** A lock over a client that does as told. */
function over(execute: CommandClient["execute"], more: Partial<CommandClient> = {}) {
  const env = virtualEnvironment();
  return { lock: createLock({ execute, ...more }, { waitMs: 0 }, env), clock: env.clock };
}

describe("the time a node is given", () => {
  /** How long an acquire takes whose every request is lost, in tries. */
  async function triesOf(leaseMs: number): Promise<number[]> {
    const sentAt: number[] = [];
    const { lock, clock } = oneRedis({ leaseMs, waitMs: 0 }, () => {
      sentAt.push(clock.monotonic);
      return { lose: "request" };
    });
    await lockError(clock.until(lock.acquire("job")), "unavailable");
    sentAt.push(clock.monotonic);
    return sentAt.slice(1).map((at, index) => at - (sentAt[index] ?? 0));
  }

  test("is a second while nothing is known, for a try, its repetition and the roll-back, at most a quarter of the lease", async () => {
    expect(await triesOf(10_000)).toEqual([1_000, 1_000, 1_000]);
    expect(await triesOf(2_000)).toEqual([500, 500, 500]);
  });

  test("doubles from the third silence in a row, to a quarter of the lease, so that a slow Redis is heard again", async () => {
    const { lock, clock, client } = oneRedis({ leaseMs: 10_000, waitMs: 0 }, { always: { lose: "request" } });
    const tookMs: number[] = [];
    for (let call = 0; call < 3; call += 1) {
      const began = clock.monotonic;
      await lockError(clock.until(lock.acquire(`job ${call}`)), "unavailable");
      tookMs.push(clock.monotonic - began);
      await clock.advance(60_000); // the later tries of the roll-back
    }
    expect(tookMs).toEqual([3_000, 7_500, 7_500]);
    expect(client.sent).toHaveLength(3 * 5);
  });

  test("does not grow where a connection is refused at once", async () => {
    let isUp = false;
    const { lock, clock } = oneRedis({ leaseMs: 10_000, waitMs: 0 }, () =>
      isUp ? { lose: "request" } : { fail: new Error("ECONNREFUSED") },
    );
    for (let call = 0; call < 5; call += 1) await lockError(clock.until(lock.acquire("job")), "unavailable");
    await clock.advance(60_000); // the later tries of the roll-backs
    isUp = true;
    const began = clock.monotonic;
    await lockError(clock.until(lock.acquire("job")), "unavailable");
    expect(clock.monotonic - began).toBe(3_000);
  });

  test("keeps the process alive", async () => {
    const { lock, clock } = oneRedis({}, { acquire: [{ lose: "request" }] });
    const acquiring = lock.acquire("job");
    await settle();
    expect(clock.pending).toEqual([{ inMs: 1_000, keepsAlive: true }]);
    await clock.until(acquiring);
  });

  test("a Redis that stays silent holds up a waiter for waitMs and three time-outs at the most", async () => {
    for (const waitMs of [0, 1_000, 10_000]) {
      const { lock, clock } = oneRedis({ waitMs }, { always: { lose: "request" } });
      const began = clock.monotonic;
      await lockError(clock.until(lock.acquire("job")), "unavailable");
      expect(clock.monotonic - began).toBeLessThanOrEqual(waitMs + 3 * 2_500);
      if (waitMs < 10_000) expect(clock.monotonic - began).toBe(3_000);
    }
  });

  test("is never under 250 ms, so that a pause of the process is not taken for a silent Redis, unless the lease is shorter", async () => {
    expect(await triesOf(500)).toEqual([250, 250, 250]);
    expect(await triesOf(100)).toEqual([100, 100, 100]);
  });

  test("follows what was measured", async () => {
    const world = oneRedis({ leaseMs: 100_000, waitMs: 0 }, { always: { requestMs: 250, replyMs: 250 } });
    for (let i = 0; i < 30; i += 1) await (await world.clock.until(world.lock.acquire(`job ${i}`))).remaining();
    const lease = await world.clock.until(world.lock.acquire("job"));
    expect(lease.remaining()).toBeGreaterThan(100_000 - 1_002 - 500 - 600); // flight allowance: hardly more than 500
  });

  test("grows again for a node that has become slower than all that was measured", async () => {
    let wayMs = 1;
    const { lock, clock } = oneRedis({ leaseMs: 60_000, waitMs: 60_000 }, () => ({ requestMs: wayMs, replyMs: wayMs }));
    for (let i = 0; i < 10; i += 1) await clock.until(lock.acquire(`job ${i}`));
    wayMs = 1_000;
    const lease = await clock.until(lock.acquire("job"));
    expect(lease.remaining()).toBeGreaterThan(0);
    expect(await clock.until(lease.release())).toBe("released");
  });
});

describe("a client below", () => {
  test("gets a signal that aborts when its time is up", async () => {
    const signals: AbortSignal[] = [];
    const { lock, clock } = over((_, { signal } = {}) => {
      if (signal) signals.push(signal);
      return new Promise(() => {});
    });
    await lockError(clock.until(lock.acquire("job")), "unavailable");
    expect(signals).toHaveLength(3);
    expect(signals.every(({ aborted }) => aborted)).toBe(true);
  });

  test("gets one that does not abort when the answer was in time", async () => {
    const redis = memoryClient();
    const signals: AbortSignal[] = [];
    const { lock } = over((command, options = {}) => {
      if (options.signal) signals.push(options.signal);
      return redis.execute(command, options);
    });
    await (await lock.acquire("job")).release();
    expect(signals.map(({ aborted }) => aborted)).toEqual([false, false]);
  });

  test.for<[what: string, execute: () => Promise<Reply>, told?: string]>([
    [
      "throws before it returns",
      () => {
        throw new Error("not connected");
      },
      "not connected",
    ],
    ["rejects with no error at all", () => Promise.reject(undefined)],
    ["rejects with a string", () => Promise.reject("gone"), "gone"],
    ["rejects with null", () => Promise.reject(null)],
    ["rejects with an object whose message is no text", () => Promise.reject({ message: 42 })],
    ["rejects with an object that has no text form", () => Promise.reject(Object.create(null))],
    ["rejects with an error without a text", () => Promise.reject(new Error(""))],
    ["resolves to undefined", () => Promise.resolve(undefined as unknown as Reply), "odd reply"],
    ["returns no promise", () => "OK" as unknown as Promise<Reply>, "odd reply"],
    ["resolves to a bigint", () => Promise.resolve(1n as unknown as Reply), "odd reply"],
    ["resolves to an object", () => Promise.resolve({} as unknown as Reply), "odd reply"],
  ])("that %s has an unknown outcome, and nothing is left unhandled", async ([, execute, told = "unknown"]) => {
    const { lock, clock } = over(execute);
    const error = await lockError(clock.until(lock.acquire("job")), "unavailable");
    expect(error.message).toBe(`Cannot acquire "job" as too few definite answers: node 1: ${told}`);
    expect(error.nodes).toMatchObject([{ label: "node 1", outcome: "unknown" }]);
  });

  test("that rejects after its time is up is not listened to any more", async () => {
    let fail = (): void => {};
    const { lock, clock } = over(
      () =>
        new Promise((_, reject) => {
          fail = () => reject(new LockError("config", "too late"));
        }),
    );
    await lockError(clock.until(lock.acquire("job")), "unavailable");
    fail();
    await clock.advance(10_000);
  });

  test("is named by its label in errors and events, else by its place", async () => {
    const execute = () => Promise.reject(new Error("ECONNREFUSED"));
    for (const [label, name] of [
      ["eu-west", "eu-west"],
      [undefined, "node 1"],
    ] as const) {
      const { lock, clock } = over(execute, { label });
      const error = await lockError(clock.until(lock.acquire("job")), "unavailable");
      expect(error.message).toBe(`Cannot acquire "job" as too few definite answers: ${name}: ECONNREFUSED`);
      expect(error.nodes).toMatchObject([{ label: name }]);
    }
  });

  test("gets its script header before each script", async () => {
    const sent: unknown[] = [];
    const redis = memoryClient();
    const scriptHeader = "#!lua flags=allow-key-locking";
    const { lock } = over(
      (command) => {
        sent.push(command[1]);
        return redis.execute(command);
      },
      { scriptHeader },
    );
    await lock.acquire("job");
    expect(sent).toEqual([`${scriptHeader}\n${acquireScript.source}`]);
  });

  test("with a kept connection is sent the digest first, and the source where it does not know it", async () => {
    const sent: unknown[] = [];
    const redis = memoryClient();
    const { lock, clock } = over(
      (command) => {
        sent.push(command[0]);
        return redis.execute(command);
      },
      { cachesScripts: true },
    );
    const digesting = lock.acquire("job");
    const lease = await digesting;
    expect(sent).toEqual(["EVALSHA", "EVAL"]);
    expect(lease.remaining()).toBeGreaterThan(0);
    expect(clock.pending).toEqual([]);
  });

  // With clients that do not heed their signal: nobody would hear what such a command grants.
  test("is sent nothing once its caller has aborted, though the digest was still being made", async () => {
    const sent: Command[] = [];
    const execute = async (command: Command) => sent.push(command);
    const { lock } = over(execute, { cachesScripts: true, scriptHeader: "#!lua name=not_digested_yet" });
    const controller = new AbortController();
    const acquiring = lock.acquire("job", { signal: controller.signal });
    controller.abort();
    await lockError(acquiring, "aborted");
    for (let made = 0; made < 10; made += 1) await crypto.subtle.digest("SHA-1", new Uint8Array(1_000));
    expect(sent).toEqual([]);
  });

  test("is sent no source by a NOSCRIPT that comes after its time", async () => {
    const sent: unknown[] = [];
    const refusals: (() => void)[] = [];
    const { lock, clock } = over(
      ([verb]) => {
        sent.push(verb);
        return new Promise((_, reject) => refusals.push(() => reject(new ReplyError("NOSCRIPT No matching script."))));
      },
      { cachesScripts: true },
    );
    await runScript({ cachesScripts: true }, { script: acquireScript, keys: [], args: [] }, async () => null); // the digest
    await lockError(clock.until(lock.acquire("job")), "unavailable");
    const before = sent.length;
    expect(before).toBeGreaterThan(1);
    for (const refuse of refusals) refuse();
    await settle();
    expect(sent).toHaveLength(before);
    expect(sent).not.toContain("EVAL");
  });
});

describe("what Redis answers with an error", () => {
  const answered = (message: string, code: LockErrorCode) => {
    const { lock, clock } = over(() => Promise.reject(new ReplyError(message)));
    return lockError(clock.until(lock.acquire("job")), code);
  };

  test.for([
    ["WRONGPASS invalid username-password pair", "config", "WRONGPASS"],
    ["NOAUTH Authentication required.", "config", "NOAUTH"],
    ["NOPERM this user has no permissions to run the 'eval' command", "config", "NOPERM"],
    ["ERR The user executing the script can't run this command or subcommand script: f_1", "config", "ERR"],
    ["ERR max daily request limit exceeded. Limit: 10000, Usage: 10000.", "unavailable", "ERR"],
    ["ERR max requests limit exceeded", "unavailable", "ERR"],
    ["ERR max request size exceeded. Limit: 1048576 bytes, Actual: 2000000 bytes", "unavailable", "ERR"],
    ["ERR max number of clients reached", "unavailable", "ERR"],
    ["OOM command not allowed when used memory > 'maxmemory'.", "unavailable", "OOM"],
    ["ERR Error running script (call to f_1): @user_script:3: OOM command not allowed", "unavailable", undefined],
    ["WRONGTYPE Operation against a key holding the wrong kind of value", "config", "WRONGTYPE"],
    // Servers that do not run the scripts at all: EVAL renamed away, a header of another service, no header known yet.
    ["ERR unknown command 'EVAL', with args beginning with: '#!lua'", "config", "ERR"],
    ["ERR Unexpected flag in script shebang: allow-key-locking", "config", "ERR"],
    ["ERR Error compiling script (new function): user_script:1: unexpected symbol near '#'", "config", "ERR"],
    ["READONLY You can't write against a read only replica.", "unavailable", "READONLY"],
  ] as const)("%s is %s", async ([message, code, serverCode]) => {
    const error = await answered(message, code);
    expect(error).toMatchObject({ lockName: "job", cause: { name: "ReplyError" } });
    if (serverCode) expect(error.cause).toHaveProperty("code", serverCode);
    expect(error.nodes).toMatchObject([{ outcome: "no-vote", reason: message }]);
  });

  test("is told by its name and code, so that one of a second copy of the package counts as well", async () => {
    const theirs = Object.assign(new Error("NOAUTH Authentication required."), { name: "ReplyError", code: "NOAUTH" });
    const { lock, clock } = over(() => Promise.reject(theirs));
    await lockError(clock.until(lock.acquire("job")), "config");
  });

  test("is shortened where it is long", async () => {
    const error = await answered(`ERR ${"x".repeat(10_000)}`, "unavailable");
    expect(error.message.length).toBeLessThan(400);
  });
});
