/** F06: a read right after a write, on servers that answer plain reads from a copy that has not heard of it. */
import { expect, test } from "vitest";
import { memoryClient } from "../../adapters/memory/index.ts";
import { createCache } from "../../src/cache.ts";
import type { CommandClient } from "../../src/command.ts";
import { fencedSet } from "../../src/fence.ts";
import { inspectLock } from "../../src/inspect.ts";
import { createLock } from "../../src/lock.ts";
import { createRedlock } from "../../src/redlock.ts";
import { inspectScript } from "../../src/scripts/inspect.ts";
import { shortened } from "../support/one-redis.ts";
import { virtualEnvironment } from "../support/virtual-clock.ts";

const [name, key] = ["job", "lock:{job}"];

test("F06 inspectLock() right after acquire reports held, where plain reads are answered from a stale copy", async () => {
  const env = virtualEnvironment();
  const { client, lag } = replicated(env);
  lag();
  const lease = await createLock(client, {}, env).acquire(name);
  // What a read would have said, by any of the ways to read.
  expect(await client.execute(["GET", key])).toBeNull();
  expect(await client.execute(["PTTL", key])).toBe(-2);
  const readOnly = await client.execute(["EVAL_RO", inspectScript.source, 2, key, `${key}:fence`]);
  expect(inspectScript.decode(readOnly)).toMatchObject({ type: "free", counter: 0 });

  const { fence } = lease;
  const token = shortened(lease);
  expect(await inspectLock(client, name, {}, env)).toMatchObject({ held: true, token, fence });
});

test("F06 inspectLock() shows the newest holder, and none once it has released, where the copy still has an older one", async () => {
  const env = virtualEnvironment();
  const { client, lag } = replicated(env);
  const lock = createLock(client, {}, env);
  const older = await lock.acquire(name);
  lag();
  await older.release();
  const newer = await lock.acquire(name);
  expect(await client.execute(["GET", key])).toBe(older.token);
  const { fence } = newer;
  const token = shortened(newer);
  expect(await inspectLock(client, name, {}, env)).toMatchObject({ held: true, token, fence });
  await newer.release();
  expect(await client.execute(["GET", key])).toBe(older.token);
  expect(await inspectLock(client, name, {}, env)).toMatchObject({ held: false, fence });
});

test("F06 inspectLock() of a Redlock right after acquire reports held on every node", async () => {
  const env = virtualEnvironment();
  const nodes = [replicated(env), replicated(env), replicated(env)];
  for (const { lag } of nodes) lag();
  const clients = nodes.map(({ client }) => client);
  const lease = await createRedlock(clients, {}, env).acquire(name);
  const state = await inspectLock(clients, name, {}, env);
  expect(state).toMatchObject({ held: true, token: shortened(lease), fence: lease.fence });
  expect(state.nodes.map(({ outcome }) => outcome)).toEqual(["held", "held", "held"]);
});

test("F06 a cache reads what it has just written, and misses what it has just invalidated", async () => {
  const env = virtualEnvironment();
  const { client, lag } = replicated(env);
  const cache = createCache(client, {}, env);
  const read = () => cache.get("report", { freshMs: 60_000 }, () => "built");
  expect(await read()).toBe("built");
  lag();
  await cache.set("report", "set", { freshMs: 60_000 });
  expect(await read()).toBe("set");
  expect((await cache.peek("report"))?.value).toBe("set");
  await cache.invalidate("report");
  expect(await cache.peek("report")).toBeUndefined();
  expect(await read()).toBe("built");
});

test("F06 nothing is decided on a command that may be answered from a copy: all are EVAL", async () => {
  const env = virtualEnvironment();
  const { client, sent } = replicated(env);
  for (const lock of [createLock(client, {}, env), createRedlock([client], {}, env)]) {
    const lease = await lock.acquire(name);
    expect(await lock.tryAcquire(name)).toBeNull();
    await lease.extend();
    await fencedSet(client, { key: "report", value: "new", fence: lease.fence }, env);
    await inspectLock(client, name, {}, env);
    await lease.release();
  }
  const cache = createCache(client, {}, env);
  await cache.get("report", { freshMs: 60_000 }, () => 1);
  await cache.get("report", { freshMs: 60_000 }, () => 1);
  await cache.set("report", 2, { freshMs: 60_000 });
  await cache.peek("report");
  await cache.invalidate("report");
  const failing = cache.get("report", { freshMs: 60_000 }, () => Promise.reject(new Error("no data")));
  await expect(failing).rejects.toMatchObject({ code: "build-failed" });
  expect(sent.length).toBeGreaterThan(15);
  expect(new Set(sent)).toEqual(new Set(["EVAL"]));
});

/**
 * A Redis whose reads are answered by a copy. The copy follows each write until it is told to lag.
 *
 * Which commands are reads is what Redis itself and the hosts of replicas go by: all that declare themselves read-only.
 */
function replicated(env: ReturnType<typeof virtualEnvironment>): {
  readonly client: CommandClient;
  readonly sent: readonly string[];
  lag(): void;
} {
  const [primary, copy] = [memoryClient({}, env), memoryClient({}, env)];
  const reads = new Set(["GET", "MGET", "EXISTS", "TYPE", "PTTL", "TTL", "HGET", "HGETALL", "DBSIZE"]);
  const sent: string[] = [];
  let follows = true;
  return {
    sent,
    lag() {
      follows = false;
    },
    client: {
      async execute([verb = "", ...args], options) {
        sent.push(String(verb));
        if (reads.has(String(verb))) return copy.execute([verb, ...args], options);
        if (verb === "EVAL_RO") return copy.execute(["EVAL", ...args], options);
        if (follows) await copy.execute([verb, ...args]);
        return primary.execute([verb, ...args], options);
      },
    },
  };
}
