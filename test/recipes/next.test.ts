/** The route handler on the page on runtimes, under a fetch that caches as Next's does. */
import { afterAll, afterEach, beforeAll, describe, expect, test, vi } from "vitest";
import { memoryClient } from "../../adapters/memory/index.ts";
import { restClient } from "../../adapters/rest.ts";
import { createLock } from "../../src/lock.ts";
import { snippetsOf } from "../docs/snippets.ts";
import { type RunningRestServer, startRestServer } from "../support/redis.ts";
import { textOf } from "../support/text-of.ts";

test("the page on runtimes shows the route handler, word for word", () => {
  const page = "docs/runtimes.md";
  expect(snippetsOf(page, textOf(page)).map(({ code }) => code)).toContain(textOf("test/recipes/next.ts"));
});

/**
 * Next's fetch where a route says `fetchCache = "default-cache"`, or a version before 15 is in use: whatever does not
 * ask for "no-store" is answered from the data cache, POST too, by URL, method, headers and body.
 */
function nextFetch(real: typeof fetch) {
  const cached = new Map<string, { readonly status: number; readonly text: string }>();
  let answered = 0;
  const double: typeof fetch = async (input, init = {}) => {
    const key = JSON.stringify([String(input), init.method, [...new Headers(init.headers)].sort(), init.body]);
    let answer = init.cache === "no-store" ? undefined : cached.get(key);
    if (answer) answered += 1;
    else {
      const response = await real(input, init);
      answer = { status: response.status, text: await response.text() };
      cached.set(key, answer);
    }
    return new Response(answer.text, { status: answer.status });
  };
  return { fetch: double, answered: () => answered };
}

describe("under a fetch that caches", () => {
  let server: RunningRestServer;
  let next: ReturnType<typeof nextFetch>;

  beforeAll(async () => {
    server = await startRestServer(memoryClient());
    next = nextFetch(fetch);
    vi.stubGlobal("fetch", next.fetch);
    vi.stubEnv("UPSTASH_REDIS_REST_URL", server.url);
    vi.stubEnv("UPSTASH_REDIS_REST_TOKEN", server.token);
  });
  afterEach(() => expect(next.answered()).toBe(0));
  afterAll(async () => {
    vi.unstubAllGlobals();
    vi.unstubAllEnvs();
    await server.stop();
  });

  test("the route handler builds once, serves that, and after DELETE the next one", async () => {
    const { GET, DELETE } = await import("./next.ts");
    const route = { params: Promise.resolve({ id: "1" }) };
    const request = new Request("https://shop.example/products/1");
    const get = async (): Promise<unknown> => (await GET(request, route)).json();
    const [first, ...others] = await Promise.all([get(), get(), get()]);
    expect(first).toMatchObject({ id: "1", cents: 1_999 });
    expect(others).toEqual([first, first]);
    expect(await get()).toEqual(first);
    expect((await DELETE(request, route)).status).toBe(204);
    expect(await get()).not.toEqual(first);
  });

  test("a lock sees each holder come and go, though its requests are alike", async () => {
    const lock = createLock(restClient({ url: server.url, token: server.token }));
    const lease = await lock.acquire("job");
    expect(await lock.tryAcquire("job")).toBeNull();
    expect(await lock.tryAcquire("job")).toBeNull();
    await lease.release();
    expect(await (await lock.tryAcquire("job"))?.release()).toBe("released");
  });
});

test("such a fetch does answer a request that is quite alike, so that the tests above can fail", async () => {
  const server = await startRestServer(memoryClient());
  const next = nextFetch(fetch);
  const headers = { authorization: `Bearer ${server.token}`, "content-type": "application/json" };
  const increment = async (): Promise<unknown> =>
    (await next.fetch(server.url, { method: "POST", headers, body: '["INCR","a"]' })).json();
  expect([await increment(), await increment()]).toEqual([{ result: 1 }, { result: 1 }]);
  expect(next.answered()).toBe(1);
  await server.stop();
});
