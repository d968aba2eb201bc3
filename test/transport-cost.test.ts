/** Counts what each operation costs where it is billed: calls of `fetch`, each of which is one HTTP request. */
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { memoryClient } from "../adapters/memory/index.ts";
import { type RestRequest, restClient } from "../adapters/rest.ts";
import { restServer } from "../adapters/rest-server.ts";
import { createCache } from "../src/cache.ts";
import type { CommandClient } from "../src/command.ts";
import { type Environment, systemEnvironment } from "../src/environment.ts";
import { fencedSet } from "../src/fence.ts";
import { inspectLock } from "../src/inspect.ts";
import { createLock } from "../src/lock.ts";
import { createRedlock } from "../src/redlock.ts";
import { describeRedis, type RunningRestServer, startRestRedis } from "./support/redis.ts";
import { settle, virtualEnvironment } from "./support/virtual-clock.ts";

type Fetch = (url: string, request: RestRequest) => Promise<Response>;

const token = "test-token";

describe("requests over restClient(), to restServer() on memory", () => {
  const env = virtualEnvironment();
  const url = "http://redis.example";
  const app = restServer(memoryClient({}, env), { token });
  costTests(() => ({ env, url, fetch: async (url, request) => app.request(url, request) }));

  test("a Redlock over three asks each node once to acquire, and once to release", async () => {
    const nodes = [1, 2, 3].map(() => counted(url, restServer(memoryClient({}, env), { token }).request));
    const requests = async (): Promise<number[]> => {
      for (const { idle } of nodes) await idle(); // a quorum is decided before all have answered
      return nodes.map((node) => node.requests());
    };
    const clients = nodes.map(({ client }) => client);
    const lease = await createRedlock(clients, {}, env).acquire("spread");
    expect(await requests()).toEqual([1, 1, 1]);
    expect(await lease.release()).toBe("released");
    expect(await requests()).toEqual([2, 2, 2]);
  });

  test("a waiting acquire is one for each poll, and one for the grant", async () => {
    const [holder, waiter] = [counted(url, app.request), counted(url, app.request)];
    const lease = await createLock(holder.client, {}, env).acquire("awaited", { leaseMs: 60_000 });
    let polls = 0;
    const observe = ({ type }: { readonly type: string }): void => {
      if (type === "contended") polls += 1;
    };
    let settled = false;
    const waiting = createLock(waiter.client, { observe }, env).acquire("awaited", { waitMs: 10_000 });
    const mark = (): void => {
      settled = true;
    };
    waiting.then(mark, mark);
    const pass = async (until: () => boolean): Promise<void> => {
      while (!until()) {
        await waiter.idle();
        // The next timer is the pause before the next poll: nothing is under way whose time could be up instead.
        await env.clock.advance(Math.min(...env.clock.pending.map(({ inMs }) => inMs), 1_000));
      }
      await waiter.idle();
    };
    await pass(() => polls >= 6);
    expect(waiter.requests()).toBe(polls);
    await lease.release();
    await pass(() => settled);
    expect(waiter.requests()).toBe(polls + 1);
    await (await waiting).release();
    expect(waiter.requests()).toBe(polls + 2);
  });
});

describeRedis("requests over restClient(), to restServer() on a real Redis, through sockets", () => {
  let rest: RunningRestServer;
  beforeAll(async () => {
    rest = await startRestRedis({ token });
  });
  afterAll(() => rest.stop());
  costTests(() => ({ env: systemEnvironment(), url: rest.url, fetch: (url, request) => fetch(url, request) }));

  test("are as many as arrive at the server", async () => {
    const { client, requests } = counted(rest.url, fetch);
    const before = rest.requests.length;
    await (await createLock(client).acquire("arrived")).release();
    expect(requests()).toBe(2);
    expect(rest.requests.length - before).toBe(2);
  });
});

function costTests(build: () => { readonly env: Environment; readonly url: string; readonly fetch: Fetch }): void {
  const fresh = { freshMs: 60_000 };

  test("acquire and release without contention are two, and so is withLock()", async () => {
    const { env, client, requests } = world();
    const lease = await createLock(client, {}, env).acquire("plain");
    expect(requests()).toBe(1);
    expect(await lease.release()).toBe("released");
    expect(requests()).toBe(2);
    expect(await lease.release()).toBe("already-released");
    expect(requests()).toBe(2);
    await createLock(client, {}, env).withLock("plain", async () => {});
    expect(requests()).toBe(4);
  });

  test("a contended poll is one, however it ends", async () => {
    const { env, client, cost } = world();
    const lock = createLock(client, {}, env);
    const lease = await lock.acquire("polled");
    expect(await cost(() => lock.tryAcquire("polled"))).toBe(1);
    expect(await cost(() => lock.acquire("polled", { waitMs: 0 }).catch(() => {}))).toBe(1);
    expect(await cost(() => lock.tryWithLock("polled", () => {}))).toBe(1);
    await lease.release();
  });

  test("extend is one, inspectLock() is one, and fencedSet() is one", async () => {
    const { env, client, cost } = world();
    const lease = await createLock(client, {}, env).acquire("extended");
    expect(await cost(() => lease.extend(60_000))).toBe(1);
    expect(await cost(() => inspectLock(client, "extended", {}, env))).toBe(1);
    expect(await cost(() => fencedSet(client, { key: "data", value: "v", fence: lease.fence }, env))).toBe(1);
    await lease.release();
  });

  test("a cache's rebuild is two, its hit one, set two, peek one and invalidate one", async () => {
    const { env, client, cost } = world();
    const cache = createCache(client, {}, env);
    const read = () => cache.getEntry("report", fresh, () => 42);
    expect(await cost(read)).toBe(2);
    expect(await cost(read)).toBe(1);
    expect(await cost(() => cache.set("report", 43, fresh))).toBe(2);
    expect(await cost(() => cache.peek("report"))).toBe(1);
    expect(await cost(() => cache.invalidate("report"))).toBe(1);
    const { requests } = await read();
    expect(requests).toBe(2);
  });

  function world() {
    const { env, url, fetch } = build();
    const counting = counted(url, fetch);
    const cost = async (call: () => Promise<unknown>): Promise<number> => {
      const before = counting.requests();
      await call();
      return counting.requests() - before;
    };
    return { env, ...counting, cost };
  }
}

/** A `restClient` that counts its calls of `fetch`; `idle` resolves once no command is under way. */
function counted(
  url: string,
  fetch: (url: string, request: RestRequest) => Response | Promise<Response>,
): { readonly client: CommandClient; requests(): number; idle(): Promise<void> } {
  let calls = 0;
  const rest = restClient({
    url,
    token,
    async fetch(address, request) {
      calls += 1;
      return fetch(address, request);
    },
  });
  const underWay = new Set<Promise<unknown>>();
  const client: CommandClient = {
    ...rest,
    execute(command, options) {
      const reply = rest.execute(command, options);
      underWay.add(reply);
      const done = (): unknown => underWay.delete(reply);
      reply.then(done, done);
      return reply;
    },
  };
  const idle = async (): Promise<void> => {
    do await settle();
    while (underWay.size > 0);
    await settle();
  };
  return { client, requests: () => calls, idle };
}
