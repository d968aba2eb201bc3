/** Redlock inside workerd: five nodes over REST, of which one never answers, and one lock shared by all requests. */
import { createServer } from "node:http";
import type { Redis } from "ioredis";
import { afterAll, beforeAll, expect, test } from "vitest";
import { describeRedis, listen, startRestRedis } from "../support/redis.ts";
import { bundleForWorkers, startWorkerd } from "../support/workerd.ts";

describeRedis("createRedlock() inside workerd", () => {
  const stack = new AsyncDisposableStack();
  const servers: Redis[] = [];
  let url: URL;

  beforeAll(async () => {
    const urls: string[] = [];
    let token = "";
    for (let place = 0; place < 4; place += 1) {
      const rest = await startRestRedis();
      stack.defer(rest.stop);
      servers.push(rest.connection);
      urls.push(rest.url);
      token = rest.token;
    }
    const silent = createServer(() => {});
    urls.push(`http://127.0.0.1:${await listen(silent)}`);
    stack.defer(() => {
      silent.closeAllConnections();
      silent.close();
    });
    const workerd = startWorkerd({
      script: await bundleForWorkers(new URL("worker.ts", import.meta.url)),
      compatibilityDate: "2026-11-01",
      bindings: { URLS: urls.join(" "), TOKEN: token },
    });
    stack.defer(() => workerd.dispose());
    url = await workerd.ready;
  });
  afterAll(() => stack.disposeAsync());

  const ask = async (path: string, name: string): Promise<unknown> =>
    (await fetch(new URL(`${path}?name=${name}`, url))).json();

  test("acquires, extends and releases without waiting for the node that never answers", async () => {
    await ask("/hold", "warm");
    const began = performance.now();
    expect(await ask("/hold", "job")).toEqual({ fence: expect.any(Number), longer: true });
    expect(performance.now() - began).toBeLessThan(2_500); // a quarter of the lease is the time-out of a silent node
    for (const redis of servers) await expect.poll(() => redis.exists("lock:{job}")).toBe(0);
  });

  test("requests that share a lock hold names of their own at once, and one name one after the other", async () => {
    const names = Array.from({ length: 8 }, (_, index) => (index % 2 ? "shared" : `own-${index}`));
    const answers = await Promise.all(names.map((name) => ask("/hold", name)));
    for (const answer of answers) expect(answer).toEqual({ fence: expect.any(Number), longer: true });
    const fences = answers.filter((_, index) => index % 2).map((answer) => Object(answer).fence);
    expect(new Set(fences).size).toBe(4);
  }, 30_000);

  test("says that another holds the name", async () => {
    for (const redis of servers) await redis.set("lock:{taken}", "theirs", "PX", 60_000);
    expect(await ask("/try", "taken")).toBe("held");
    expect(await ask("/try", "open")).toBe("free");
  });

  test("refuses a sixth node, as a Worker may wait for six responses at once", async () => {
    expect(await ask("/six", "job")).toEqual({
      code: "config",
      error: expect.stringContaining("Cannot use clients as it must be at most 5 on Workers: current value is 6"),
    });
  });
});
