/**
 * Public reports on the life of a process and of a request: what may keep either alive, and what must. Each test is named
 * by the id of its report.
 */
import { afterEach, describe, expect, test, vi } from "vitest";
import { memoryClient } from "../../adapters/memory/index.ts";
import { createCache } from "../../src/cache.ts";
import type { CommandClient } from "../../src/command.ts";
import type { LeaseholdEvent } from "../../src/events.ts";
import { createLock } from "../../src/lock.ts";
import { verbOf } from "../cache/world.ts";
import { gate } from "../support/fetch-double.ts";
import { oneRedis } from "../support/one-redis.ts";
import { runProgram } from "../support/program.ts";
import { startRestServer } from "../support/redis.ts";
import { lasting, settle } from "../support/virtual-clock.ts";

const key = "lock:{job}";

afterEach(() => {
  vi.unstubAllGlobals();
  vi.resetModules();
});

describe("H07 work after the response", () => {
  /** A `waitUntil` that counts what is registered and not yet settled. */
  function registry() {
    const open = new Set<Promise<unknown>>();
    const waitUntil = (work: Promise<unknown>): void => {
      open.add(work);
      void work.finally(() => open.delete(work));
    };
    return { open, waitUntil };
  }

  test("H07 a release that nobody awaits is handed to waitUntil, and completes", async () => {
    const { open, waitUntil } = registry();
    const { lock, clock, run } = oneRedis({ waitUntil }, { release: [{ requestMs: 50 }] });
    void (await lock.acquire("job")).release();
    await settle();
    expect(open.size).toBe(1);
    await clock.advance(50);
    expect(open.size).toBe(0);
    expect(await run("EXISTS", key)).toBe(0);
  });

  test("H07 renewal is not kept in waitUntil: while the task runs nothing is registered, and soon after nothing is left", async () => {
    const { open, waitUntil } = registry();
    const { lock, clock } = oneRedis({ waitUntil, leaseMs: 1_000 }, { release: [{ requestMs: 50 }] });
    const running = lock.withLock("job", () => lasting(clock, 5_000));
    await clock.advance(4_000);
    expect(open.size).toBe(0);
    await clock.until(running);
    expect(open.size).toBe(1);
    await clock.advance(50);
    expect(open.size).toBe(0);
  });

  test("H07 without waitUntil the release has been answered when withLock() settles", async () => {
    const { lock, clock, run } = oneRedis({}, { release: [{ requestMs: 50, replyMs: 50 }] });
    const began = clock.monotonic;
    await clock.until(lock.withLock("job", () => 42));
    expect(clock.monotonic - began).toBe(100);
    expect(await run("EXISTS", key)).toBe(0);
  });
});

describe("I03 what keeps a process alive", () => {
  const setUp = `
    import { createLock } from "leasehold";
    import { memoryClient } from "leasehold/memory";

    const client = memoryClient();
    const lock = createLock(client, { leaseMs: 600_000 });
  `;

  test("I03 nothing does after withLock(): no timer is left, and the process ends by itself", async () => {
    const ended = await runProgram(`
      ${setUp}
      await lock.withLock("job", () => new Promise((resolve) => setTimeout(resolve, 10)));
      console.log(process.getActiveResourcesInfo().filter((kind) => kind === "Timeout").length);
    `);
    expect(ended).toEqual({ code: 0, stdout: "0\n", stderr: "" });
  }, 30_000);

  test("I03 nothing does after withLock() over HTTP either", async () => {
    const ended = await runProgram(`
      ${setUp}
      import { createServer } from "node:http";
      import { getRequestListener } from "@hono/node-server";
      import { restClient } from "leasehold/rest";
      import { restServer } from "leasehold/rest-server";

      const server = createServer(getRequestListener(restServer(client, { token: "token" }).fetch));
      await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
      const url = "http://127.0.0.1:" + server.address().port;
      const overHttp = createLock(restClient({ url, token: "token" }), { leaseMs: 600_000 });
      await overHttp.withLock("job", (lease) => lease.extend());
      server.close().unref();
      server.closeAllConnections();
      console.log(process.getActiveResourcesInfo().filter((kind) => kind === "Timeout").length);
    `);
    expect(ended).toEqual({ code: 0, stdout: "0\n", stderr: "" });
  }, 30_000);

  test("I03 nothing does after the calls of a cache", async () => {
    const ended = await runProgram(`
      ${setUp}
      import { createCache } from "leasehold";
      const cache = createCache(client);
      const options = { freshMs: 600_000, leaseMs: 600_000, waitMs: 600_000, hardTimeoutMs: 600_000 };
      const slow = () => new Promise((resolve) => setTimeout(resolve, 10, "built"));
      await Promise.all([cache.get("k", options, slow), createCache(client).get("k", options, slow)]);
      await cache.get("failing", options, () => Promise.reject(new Error("no"))).catch(() => {});
      await cache.set("k", "set", options);
      await cache.invalidate("k");
      await cache.peek("k");
      console.log(process.getActiveResourcesInfo().filter((kind) => kind === "Timeout").length);
    `);
    expect(ended).toEqual({ code: 0, stdout: "0\n", stderr: "" });
  }, 30_000);

  test.for([
    ["withLock()", 'await createLock(client).withLock("job", (lease) => lease.extend())'],
    [
      "a cache",
      `const cache = createCache(client);
      await cache.get("k", { freshMs: 60_000 }, () => 1);
      await cache.set("k", 2, { freshMs: 60_000 });
      await cache.invalidate("k")`,
    ],
  ] as const)(
    "I03 a handler with %s over HTTP leaves nothing to wait for: its process idles for less than 200 ms",
    {
      timeout: 30_000,
    },
    async ([, work]) => {
      await using parts = new AsyncDisposableStack();
      const rest = await startRestServer(memoryClient());
      parts.defer(rest.stop);
      const ended = await runProgram(`
      import { createCache, createLock } from "leasehold";
      import { restClient } from "leasehold/rest";

      const client = restClient(${JSON.stringify({ url: rest.url, token: rest.token })});
      ${work};
      const answered = performance.eventLoopUtilization();
      process.once("exit", () => console.log(performance.eventLoopUtilization(answered).idle < 200));
    `);
      expect(ended).toEqual({ code: 0, stdout: "true\n", stderr: "" });
    },
  );

  test("I03 a lease that was never released does not", async () => {
    const ended = await runProgram(`
      ${setUp}
      const lease = await lock.acquire("job");
      console.log(lease.remaining() > 0);
    `);
    expect(ended).toEqual({ code: 0, stdout: "true\n", stderr: "" });
  }, 30_000);

  test("I03 renewal does not: where only a task that never ends is left, the process ends", async () => {
    const ended = await runProgram(`
      ${setUp}
      void createLock(client, { leaseMs: 100 }).withLock("job", { maxHoldMs: 600_000 }, () => new Promise(() => {}));
      process.on("exit", () => console.log("exit"));
    `);
    expect(ended).toEqual({ code: 0, stdout: "exit\n", stderr: "" });
  }, 30_000);

  test("I03 waiting does: a wait is gone through to its end", async () => {
    const ended = await runProgram(`
      ${setUp}
      const holder = await lock.acquire("job", { leaseMs: 300 });
      const { fence } = await lock.acquire("job", { leaseMs: 600_000 });
      console.log(fence > holder.fence);
    `);
    expect(ended).toEqual({ code: 0, stdout: "true\n", stderr: "" });
  }, 30_000);

  test("I03 a request under way does, up to its time-out", async () => {
    const ended = await runProgram(`
      ${setUp}
      const silent = createLock({ execute: () => new Promise(() => {}) }, { leaseMs: 100, waitMs: 0 });
      console.log(await silent.acquire("job").catch((error) => error.code));
    `);
    expect(ended).toEqual({ code: 0, stdout: "unavailable\n", stderr: "" });
  }, 30_000);
});

describe("J01 timers of other runtimes", () => {
  const { setTimeout: set, clearTimeout: clear } = globalThis;

  /** Timers whose handles are what `wrap` makes of a number. */
  function stubTimers(wrap: (id: number) => unknown): void {
    const timers = new Map<unknown, ReturnType<typeof set>>();
    vi.stubGlobal("setTimeout", (callback: () => void, ms?: number) => {
      const handle = wrap(timers.size + 1);
      timers.set(handle, set(callback, ms));
      return handle;
    });
    vi.stubGlobal("clearTimeout", (handle: unknown) => clear(timers.get(handle)));
  }

  const handles: [what: string, wrap: (id: number) => unknown, deno: unknown][] = [
    ["numbers", (id) => id, undefined],
    ["numbers, on a Deno without unrefTimer", (id) => id, {}],
    ["objects without unref", (id) => ({ id }), undefined],
  ];

  test.for(handles)("J01 %s do for a lock that is renewed", async ([, wrap, deno]) => {
    stubTimers(wrap);
    if (deno) vi.stubGlobal("Deno", deno);
    const renewal = gate<void>();
    const observe = ({ type }: LeaseholdEvent): unknown => type === "renewed" && renewal.open();
    const lock = createLock(memoryClient(), { leaseMs: 1_000, observe });
    expect(await lock.withLock("job", () => renewal.promise.then(() => 42))).toBe(42);
  });

  test.for(handles)("J01 %s do for a cache whose build is renewed", async ([, wrap, deno]) => {
    stubTimers(wrap);
    if (deno) vi.stubGlobal("Deno", deno);
    const renewal = gate<void>();
    const redis = memoryClient();
    const client: CommandClient = {
      async execute(command) {
        const reply = await redis.execute(command);
        if (verbOf(command) === "tend") renewal.open();
        return reply;
      },
    };
    const build = () => renewal.promise.then(() => 42);
    const entry = await createCache(client).getEntry("k", { freshMs: 60_000, leaseMs: 1_000 }, build);
    expect(entry).toMatchObject({ value: 42, status: "built", stored: true });
  });
});

describe("J04 a runtime without Symbol.asyncDispose", () => {
  /** `Symbol` as it was before there was explicit resource management. */
  function oldSymbol(): unknown {
    const modern = globalThis.Symbol;
    const old = (description?: string): symbol => modern(description);
    for (const name of Object.getOwnPropertyNames(modern)) {
      if (/^(asyncDispose|dispose)$/.test(name) || name in old) continue;
      Object.defineProperty(old, name, { value: Reflect.get(modern, name) });
    }
    return old;
  }

  test("J04 a lease has no property of the name undefined, and all else works", async () => {
    vi.stubGlobal("Symbol", oldSymbol());
    expect(Symbol.asyncDispose).toBeUndefined();
    vi.resetModules();
    const { createLock: create } = await import("../../src/index.ts");
    const lock = create(memoryClient());
    const lease = await lock.acquire("job");
    const keys = Reflect.ownKeys(lease);
    expect(keys).not.toContain("undefined");
    expect(keys.filter((name) => typeof name === "symbol")).toEqual([]);
    expect(await lease.release()).toBe("released");
    expect(await lock.withLock("job", () => 42)).toBe(42);
  });

  test("J04 where it exists await using releases, also when the block throws", async () => {
    const client = memoryClient();
    const block = async (): Promise<void> => {
      await using lease = await createLock(client).acquire("job");
      throw new Error(lease.name);
    };
    await expect(block()).rejects.toThrow("job");
    expect(await client.execute(["EXISTS", key])).toBe(0);
  });
});
