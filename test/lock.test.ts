import { describe, expect, test } from "vitest";
import { memoryClient } from "../adapters/memory/index.ts";
import { LockError } from "../src/errors.ts";
import { createLock } from "../src/lock.ts";
import type { TryOptions } from "../src/lock-methods.ts";
import { loosely } from "./support/loosely.ts";
import { oneRedis } from "./support/one-redis.ts";
import { lockError } from "./support/rejection.ts";

/** The "config" error that a function throws or rejects with. */
async function configError(act: () => unknown): Promise<LockError> {
  return lockError(
    Promise.resolve().then(() => act()),
    "config",
  );
}

/** The grammar of a refused argument. */
function refusal(option: string, value = ""): RegExp {
  return new RegExp(`^Cannot use ${option}\\S* as it must be .+: current value is ${value.replace(/[{}]/g, "\\$&")}`);
}

const notMs = [123.45, -1, Number.NaN, Number.POSITIVE_INFINITY, "5000", 2 ** 53, null, true, {}, [], () => {}, 10n];

describe("createLock()", () => {
  test("sends nothing, and reads neither clock nor chance before its first call", () => {
    const untouchable = new Proxy({}, { get: () => expect.fail("touched") });
    const env = { clock: untouchable, random: untouchable, host: untouchable };
    loosely(createLock, { execute: () => expect.fail("sent") }, {}, env);
  });

  test.for<[options: object, value: string]>([
    [{ prefix: "" }, '""'],
    [{ prefix: "a{b" }, '"a{b"'],
    [{ prefix: "a}b" }, '"a}b"'],
    [{ prefix: "a%b" }, '"a%b"'],
    [{ prefix: 7 }, "7"],
    [{ prefix: null }, "null"],
    [{ observe: "log" }, '"log"'],
    [{ waitUntil: 1 }, "1"],
    [{ leaseMs: 9 }, "9"],
    [{ waitMs: -1 }, "-1"],
  ])("refuses %o at once, and names the option and its value", ([options, value]) => {
    const [option = ""] = Object.keys(options);
    const message = expect.stringMatching(refusal(option, value));
    expect(() => loosely(createLock, memoryClient(), options)).toThrow(
      expect.objectContaining({ code: "config", message }),
    );
  });

  test.for(notMs.map((value) => [value]))("refuses %o for leaseMs and for waitMs", async ([value]) => {
    for (const option of ["leaseMs", "waitMs"]) {
      const error = await configError(() => loosely(createLock, memoryClient(), { [option]: value }));
      expect(error.message).toMatch(refusal(option));
    }
  });

  test.for([
    [{ call() {}, sendCommand() {} }],
    [{ sendCommand() {} }],
    [{ exec() {} }],
    [{}],
    ["redis://127.0.0.1:6379"],
    [null],
    [undefined],
    [() => {}],
  ])("refuses the foreign client %o", ([client]) => {
    const message = expect.stringMatching(/^Cannot use the client as it must be one with execute, such as restClient /);
    expect(() => loosely(createLock, client)).toThrow(expect.objectContaining({ code: "config", message }));
  });

  test("takes undefined for each option as if it were left out", async () => {
    const { redis, env } = oneRedis();
    const nothing = {
      prefix: undefined,
      leaseMs: undefined,
      waitMs: undefined,
      observe: undefined,
      waitUntil: undefined,
    };
    const lock = createLock(redis, nothing, env);
    const lease = await lock.acquire("job", {
      leaseMs: undefined,
      waitMs: undefined,
      signal: undefined,
      waitUntil: undefined,
    });
    expect(lease.key).toBe("lock:{job}");
    expect(lease.remaining()).toBe(9_898);
    expect(await lock.tryAcquire("job", { leaseMs: undefined, signal: undefined })).toBeNull();
    await lease.release();
    expect(await lock.withLock("job", { maxHoldMs: undefined, signal: undefined }, () => 1)).toBe(1);
    expect(await loosely(lock.withLock, "job", undefined, () => 2)).toBe(2);
    expect(await loosely(lock.tryWithLock, "job", undefined, () => 3)).toEqual({ ran: true, value: 3 });
  });

  test("defaults to a lease of 10 s and a wait of 10 s, which its options and then a call's own replace", async () => {
    const { redis, env, other } = oneRedis();
    const { clock } = env;
    await other.acquire("job", { leaseMs: 100_000 });
    const byDefault = createLock(redis, {}, env);
    const patient = createLock(redis, { waitMs: 20_000, leaseMs: 5_000 }, env);
    const waits = async (acquiring: Promise<unknown>): Promise<number> => {
      const began = clock.monotonic;
      await lockError(clock.until(acquiring), "timeout");
      return clock.monotonic - began;
    };
    expect(await waits(byDefault.acquire("job"))).toBe(10_000);
    expect(await waits(patient.acquire("job"))).toBe(20_000);
    expect(await waits(patient.acquire("job", { waitMs: 1_000 }))).toBe(1_000);
    expect(await waits(patient.withLock("job", { waitMs: 1_000 }, () => {}))).toBe(1_000);
    expect((await byDefault.acquire("second")).remaining()).toBe(9_898);
    expect((await patient.acquire("third")).remaining()).toBe(4_948);
    expect((await patient.acquire("fourth", { leaseMs: 1_000 })).remaining()).toBe(988);
  });

  test("puts its keys under the prefix, and locks of two prefixes do not meet", async () => {
    const { redis, env } = oneRedis();
    const [ours, theirs] = [createLock(redis, { prefix: "ours" }, env), createLock(redis, { prefix: "theirs" }, env)];
    expect((await ours.acquire("job")).key).toBe("ours:{job}");
    expect((await theirs.acquire("job")).key).toBe("theirs:{job}");
  });

  test("one lock serves any number of names at once, and two locks with the same settings exclude each other", async () => {
    const { redis, env, lock } = oneRedis();
    const leases = await Promise.all(Array.from({ length: 200 }, (_, index) => lock.acquire(`job ${index}`)));
    expect(new Set(leases.map(({ key }) => key)).size).toBe(200);
    expect(await createLock(redis, {}, env).tryAcquire("job 7")).toBeNull();
  });
});

describe("bad arguments of a call", () => {
  const methods = ["acquire", "tryAcquire", "withLock", "tryWithLock"] as const;
  const calling = (method: (typeof methods)[number], name: unknown, options: object) => {
    const world = oneRedis();
    const task = (): void => expect.fail("ran");
    return { ...world, error: configError(() => loosely(world.lock[method], name, options, task)) };
  };

  test.for(methods)("%s() refuses a bad name, and sends nothing", async (method) => {
    for (const name of ["", "\ud800", 7, null, undefined, {}, ["job"]]) {
      const { error, client } = calling(method, name, {});
      expect((await error).message).toMatch(refusal("name"));
      expect(client.sent).toEqual([]);
    }
  });

  test.for(methods)("%s() refuses a name that is another lock's derived key, and sends nothing", async (method) => {
    for (const name of ["rebuild:{42}:fence", "rebuild:{42}:void:tA"]) {
      const { error, client } = calling(method, name, {});
      expect((await error).message).toContain(`current value is ${JSON.stringify(name)}`);
      expect(client.sent).toEqual([]);
    }
  });

  test.for(methods)("%s() refuses a bad leaseMs or signal, and sends nothing", async (method) => {
    const bad = notMs.map((leaseMs) => ({ leaseMs }));
    const signals = [{ signal: "abort" }, { signal: {} }, { signal: null }, { signal: new AbortController() }];
    for (const options of [...bad, { leaseMs: 0 }, { leaseMs: 9 }, ...signals, { waitUntil: "later" }]) {
      const { error, client } = calling(method, "job", options);
      expect((await error).message).toMatch(refusal(Object.keys(options)[0] ?? ""));
      expect(client.sent).toEqual([]);
    }
  });

  test.for(["acquire", "withLock"] as const)("%s() refuses a bad waitMs, and sends nothing", async (method) => {
    for (const waitMs of notMs) {
      const { error, client } = calling(method, "job", { waitMs });
      expect((await error).message).toMatch(refusal("waitMs"));
      expect(client.sent).toEqual([]);
    }
  });

  test.for(["withLock", "tryWithLock"] as const)(
    "%s() refuses a bad maxHoldMs or task, and sends nothing",
    async (method) => {
      for (const maxHoldMs of [0, ...notMs]) {
        const { error, client } = calling(method, "job", { maxHoldMs });
        expect((await error).message).toMatch(refusal("maxHoldMs"));
        expect(client.sent).toEqual([]);
      }
      const { lock, client } = oneRedis();
      for (const task of [undefined, "task", Promise.resolve()]) {
        const error = await configError(() => loosely(lock[method], "job", {}, task));
        expect(error.message).toMatch(refusal("task"));
        expect(client.sent).toEqual([]);
      }
    },
  );

  test("the least and the longest lease, and the longest wait, are taken", async () => {
    const { lock } = oneRedis();
    for (const leaseMs of [10, 86_400_000, 365 * 86_400_000]) {
      await (await lock.acquire("job", { leaseMs, waitMs: 365 * 86_400_000 })).release();
    }
  });
});

describe("tryAcquire()", () => {
  test("gives a lease, or null with one request where another holds the name", async () => {
    const { lock, verbs } = oneRedis();
    const lease = await lock.tryAcquire("job");
    expect(lease?.remaining()).toBe(9_898);
    expect(await lock.tryAcquire("job")).toBeNull();
    expect(verbs()).toEqual(["acquire", "acquire"]);
  });

  test("does not wait, whatever a caller without types asks for", async () => {
    const { lock, other, clock } = oneRedis();
    await other.acquire("job");
    const began = clock.monotonic;
    expect(await loosely(lock.tryAcquire, "job", { waitMs: 5_000 })).toBeNull();
    expect(clock.monotonic).toBe(began);
  });

  test("takes options that are not the object's own, as every method does", async () => {
    const { lock } = oneRedis();
    const inherited: TryOptions = Object.create({ leaseMs: 50_000 });
    expect((await lock.tryAcquire("a", inherited))?.remaining()).toBe(49_498);
    expect((await lock.acquire("b", inherited)).remaining()).toBe(49_498);
    const held = await lock.tryWithLock("c", inherited, async (lease) => lease.remaining());
    expect(held).toEqual({ ran: true, value: 49_498 });
  });

  test("throws whatever is not contention", async () => {
    const { lock, clock } = oneRedis({}, { always: { fail: new Error("ECONNREFUSED") } });
    await lockError(clock.until(lock.tryAcquire("job")), "unavailable");
    await lockError(clock.until(lock.tryAcquire("job", { signal: AbortSignal.abort() })), "aborted");
  });
});

describe("tryWithLock()", () => {
  test("runs the task where it can, and says so with its value", async () => {
    const { lock, verbs } = oneRedis();
    expect(await lock.tryWithLock("job", async ({ fence }) => fence > 0)).toEqual({ ran: true, value: true });
    expect(await lock.tryWithLock("job", { leaseMs: 100 }, () => undefined)).toEqual({ ran: true, value: undefined });
    expect(verbs()).toEqual(["acquire", "release", "acquire", "release"]);
  });

  test("skips the task where another holds the name, and says what is left of that lease", async () => {
    const { lock, other, clock, verbs } = oneRedis();
    await other.acquire("job", { leaseMs: 7_000 });
    await clock.advance(2_000);
    expect(await lock.tryWithLock("job", () => expect.fail("ran"))).toEqual({ ran: false, retryAfterMs: 5_000 });
    expect(verbs()).toEqual(["acquire"]);
  });

  test("says its own lease where the other's has no end", async () => {
    const { lock, run } = oneRedis({ leaseMs: 3_000 });
    await run("SET", "lock:{job}", "theirs");
    expect(await lock.tryWithLock("job", () => expect.fail("ran"))).toEqual({ ran: false, retryAfterMs: 3_000 });
    const options = { leaseMs: 2_000 };
    expect(await lock.tryWithLock("job", options, () => expect.fail("ran"))).toEqual({
      ran: false,
      retryAfterMs: 2_000,
    });
  });

  test("a lease whose last ms runs has an end", async () => {
    const { lock } = oneRedis({}, { acquire: [{ answer: [0, 5, 0] }] });
    expect(await lock.tryWithLock("job", () => expect.fail("ran"))).toEqual({ ran: false, retryAfterMs: 0 });
  });

  test("a task's own contention is the task's error, not a skip", async () => {
    const { lock } = oneRedis();
    const own = new LockError("contended", 'Cannot acquire "inner" as another holds it');
    await expect(
      lock.tryWithLock("job", () => {
        throw own;
      }),
    ).rejects.toBe(own);
  });
});
