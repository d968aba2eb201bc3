/**
 * Run by `deno test --trace-leaks --sanitize-ops --sanitize-resources <this> -- <url> <token>`: Deno fails a test that
 * leaves a timer, a response's body or a pending operation behind.
 *
 * @module
 */
import { createCache, createLock } from "leasehold";
import { restClient } from "leasehold/rest";

declare const Deno: {
  readonly args: readonly string[];
  test(name: string, body: () => Promise<void>): void;
};

const [url, token] = Deno.args;
const client = restClient({ url, token });
const lock = createLock(client);
const ignored = (): void => {};

Deno.test("a lease that is released", async () => {
  const lease = await lock.acquire("leaks:lease");
  await lease.extend();
  await lease.release();
});

Deno.test("withLock()", () => lock.withLock("leaks:with-lock", async () => {}));

Deno.test("a wait that times out, one that is aborted, and one that never was", async () => {
  const lease = await lock.acquire("leaks:waits");
  const controller = new AbortController();
  const aborted = lock.acquire("leaks:waits", { signal: controller.signal }).catch(ignored);
  await lock.acquire("leaks:waits", { waitMs: 50 }).catch(ignored);
  await lock.tryAcquire("leaks:waits");
  controller.abort();
  await aborted;
  await lease.release();
});

Deno.test("a task whose caller leaves", async () => {
  const controller = new AbortController();
  await lock.withLock("leaks:left", { signal: controller.signal }, async () => controller.abort()).catch(ignored);
});

Deno.test("a cache", async () => {
  const cache = createCache(client);
  await cache.get("leaks:cache", { freshMs: 1_000 }, () => 1);
  await cache.get("leaks:cache", { freshMs: 1_000 }, () => 2);
  await cache.invalidate("leaks:cache");
});
