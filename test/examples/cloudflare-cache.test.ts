import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { getRequestListener } from "@hono/node-server";
import { Hono } from "hono";
import { Redis } from "ioredis";
import { type CommandClient, createCache, createLock } from "leasehold";
import { ioredisClient } from "leasehold/ioredis";
import { memoryClient } from "leasehold/memory";
import { afterAll, beforeAll, describe, expect, test, vi } from "vitest";
import { createTestHarness } from "wrangler";
import { app } from "../../examples/cloudflare-cache/worker.ts";
import { type Figures, faults, table, type Wave } from "../../examples/stampede/figures.ts";
import type { Reading } from "../../examples/stampede/readers.ts";
import { measure } from "../../examples/stampede/scenario.ts";
import { runCommand } from "../support/program.ts";
import { describeRedis, listen, redisInstalled, startRedis, startRestServer } from "../support/redis.ts";

const root = fileURLToPath(new URL("../../", import.meta.url));
const directory = mkdtempSync(join(tmpdir(), "leasehold-example-"));
const env = {
  ...process.env,
  CI: "1",
  NO_COLOR: "1",
  CLOUDFLARE_CF_FETCH_ENABLED: "false",
  WRANGLER_HIDE_BANNER: "true",
  WRANGLER_SEND_METRICS: "false",
  XDG_CONFIG_HOME: directory,
};
Object.assign(process.env, env); // createTestHarness reads these too
afterAll(() => rmSync(directory, { recursive: true, force: true }));

/** A shop whose products are as the test says. */
async function startShop() {
  const products = new Map<string, number | "broken">();
  const asked: string[] = [];
  const app = new Hono();
  app.get("/products/:id", (c) => {
    const id = c.req.param("id");
    asked.push(id);
    const version = products.get(id);
    if (version === "broken") return c.text("the database is down", 500);
    return version === undefined ? c.notFound() : c.json({ id, version });
  });
  const server = createServer(getRequestListener(app.fetch, { overrideGlobalObjects: false }));
  const url = `http://127.0.0.1:${await listen(server)}`;
  const stop = (): void => {
    server.close();
    server.closeAllConnections();
  };
  return { url, products, asked, stop };
}

describeRedis("the Worker, in workerd", () => {
  let shop: Awaited<ReturnType<typeof startShop>>;
  let harness: ReturnType<typeof createTestHarness>;
  let client: CommandClient;
  const stops: (() => unknown)[] = [];

  beforeAll(async () => {
    const redis = await startRedis();
    stops.push(() => redis.stop());
    const connection = new Redis(redis.port, "127.0.0.1");
    stops.push(() => connection.disconnect());
    client = ioredisClient(connection);
    const rest = await startRestServer(client);
    stops.push(() => rest.stop());
    shop = await startShop();
    stops.push(shop.stop);
    const secrets = { UPSTASH_REDIS_REST_URL: rest.url, UPSTASH_REDIS_REST_TOKEN: rest.token };
    const vars = { ORIGIN_URL: shop.url };
    harness = createTestHarness({ root, workers: [{ configPath: "wrangler.toml", secrets, vars }] });
    stops.push(() => harness.close());
    await harness.listen();
  }, 60_000);
  afterAll(async () => {
    for (const stop of stops.reverse()) await stop();
  });

  const get = async (path: string) => {
    const response = await harness.fetch(path);
    const header = (name: string): string | null => response.headers.get(name);
    const [cache, requests, retryAfter] = ["x-cache", "x-cache-requests", "retry-after"].map(header);
    return { status: response.status, cache, requests, retryAfter, body: await response.text() };
  };

  test("GET / explains, and its link leads to a product", async () => {
    const page = await get("/");
    expect(page).toMatchObject({ status: 200, cache: null });
    shop.products.set("1", 1);
    const [, link = ""] = /href="(.*?)"/.exec(page.body) ?? [];
    expect(await get(link)).toMatchObject({ status: 200, body: '{"id":"1","version":1}' });
  });

  test("a product is built in 2 requests, then served in 1, and DELETE brings the new version", async () => {
    shop.products.set("lamp", 1);
    expect(await get("/products/lamp")).toMatchObject({
      cache: "built",
      requests: "2",
      body: '{"id":"lamp","version":1}',
    });
    shop.products.set("lamp", 2);
    expect(await get("/products/lamp")).toMatchObject({
      cache: "hit",
      requests: "1",
      body: '{"id":"lamp","version":1}',
    });
    const { status } = await harness.fetch("/products/lamp", { method: "DELETE" });
    expect(status).toBe(204);
    expect(await get("/products/lamp")).toMatchObject({ cache: "built", body: '{"id":"lamp","version":2}' });
    expect(shop.asked.filter((id) => id === "lamp")).toHaveLength(2);
  });

  test("that there is no such product is remembered too", async () => {
    expect(await get("/products/none")).toMatchObject({ status: 404, cache: "built" });
    expect(await get("/products/none")).toMatchObject({ status: 404, cache: "hit" });
    expect(shop.asked.filter((id) => id === "none")).toHaveLength(1);
  });

  test("a shop that fails is a 503 that says when to come back, and is then left alone", async () => {
    shop.products.set("vase", "broken");
    expect(await get("/products/vase")).toMatchObject({
      status: 503,
      retryAfter: "1",
      body: '{"error":"build-failed"}',
    });
    expect(await get("/products/vase")).toMatchObject({
      status: 503,
      retryAfter: "1",
      body: '{"error":"build-failed"}',
    });
    expect(shop.asked.filter((id) => id === "vase")).toHaveLength(1);
  });

  test("an old value is served at once, in 1 request, while the new one is built behind the response", async () => {
    shop.products.set("chair", 1);
    await get("/products/chair");
    shop.products.set("chair", 2);
    await createCache(client).invalidate("product:chair", { soft: true });
    expect(await get("/products/chair")).toMatchObject({
      cache: "stale",
      requests: "1",
      body: '{"id":"chair","version":1}',
    });
    await expect.poll(() => get("/products/chair")).toMatchObject({ cache: "hit", body: '{"id":"chair","version":2}' });
    expect(shop.asked.filter((id) => id === "chair")).toHaveLength(2);
  });

  test("an old value is served where the shop fails", async () => {
    shop.products.set("desk", 1);
    await get("/products/desk");
    shop.products.set("desk", "broken");
    await createCache(client).invalidate("product:desk", { soft: true });
    for (let read = 0; read < 3; read++) {
      expect(await get("/products/desk")).toMatchObject({ status: 200, body: '{"id":"desk","version":1}' });
    }
  });

  test("the cron builds the popular products, and does nothing while another run is at it", async () => {
    for (const id of ["1", "2", "3"]) shop.products.set(id, 1);
    const lock = createLock(client);
    const other = await lock.acquire("warm-up");
    const run = () => harness.getWorker().scheduled({ cron: "* * * * *" });
    const asked = shop.asked.length;
    expect(await run()).toMatchObject({ outcome: "ok" });
    expect(shop.asked).toHaveLength(asked);
    await other.release();

    expect(await run()).toMatchObject({ outcome: "ok" });
    expect(shop.asked.slice(asked)).toEqual(expect.arrayContaining(["2", "3"]));
    expect(await get("/products/3")).toMatchObject({ cache: "hit", body: '{"id":"3","version":1}' });
    expect(await (await lock.tryAcquire("warm-up"))?.release()).toBe("released");
  });

  test("GET /health is 200 while Redis answers", async () => {
    expect(await get("/health")).toMatchObject({ status: 200, body: '{"ok":true}' });
  });

  test("what is no product's address is a 404 and reaches neither Redis nor the shop", async () => {
    expect(await get("/products/a%20b")).toMatchObject({ status: 404, cache: null });
    expect(await get(`/products/${"x".repeat(65)}`)).toMatchObject({ status: 404, cache: null });
    expect(shop.asked).not.toContain("a b");
  });
});

describe("the Worker's answers", () => {
  const executionCtx = { waitUntil: () => {}, passThroughOnException: () => {}, props: {} };

  test("a wrong token is a 500 that does not say why, not a 503 to be tried again", async () => {
    const rest = await startRestServer(memoryClient(), { token: "right" });
    const log = vi.spyOn(console, "error").mockImplementation(() => {});
    const bindings = { UPSTASH_REDIS_REST_URL: rest.url, UPSTASH_REDIS_REST_TOKEN: "wrong", ORIGIN_URL: "" };
    const response = await app.request("/products/1", {}, bindings, executionCtx);
    await rest.stop();
    expect([response.status, await response.text()]).toEqual([500, '{"error":"internal"}']);
    expect(log.mock.lastCall).toEqual([expect.objectContaining({ code: "config" })]);
    log.mockRestore();
  });

  test("GET /health is a 503 when Redis cannot be had", async () => {
    const bindings = { UPSTASH_REDIS_REST_URL: "http://127.0.0.1:1", UPSTASH_REDIS_REST_TOKEN: "t", ORIGIN_URL: "" };
    const response = await app.request("/health", {}, bindings, executionCtx);
    expect([response.status, await response.text()]).toEqual([503, '{"ok":false}']);
  });

  test("with no origin the products are made up", async () => {
    const rest = await startRestServer(memoryClient());
    const bindings = { UPSTASH_REDIS_REST_URL: rest.url, UPSTASH_REDIS_REST_TOKEN: rest.token, ORIGIN_URL: "" };
    const response = await app.request("/products/7", {}, bindings, executionCtx);
    await rest.stop();
    expect(await response.json()).toMatchObject({ id: "7", version: expect.any(Number) });
  });
});

describe("wrangler", () => {
  test("deploys what wrangler.toml says, with nothing but web globals in the bundle", async () => {
    const wrangler = join(root, "node_modules", "wrangler", "bin", "wrangler.js");
    const out = join(directory, "out");
    const ended = await runCommand(process.execPath, [wrangler, "deploy", "--dry-run", "--outdir", out]);
    expect(ended, ended.stderr).toMatchObject({ code: 0 });
    const bundle = readFileSync(join(out, "worker.js"), "utf8");
    expect(bundle).toContain("createCache");
    expect(bundle).not.toMatch(/["']node:/);
  }, 60_000);

  test(".dev.vars.example has a value for every secret that wrangler.toml asks for", () => {
    const asked = /required = \[(.*)\]/.exec(readFileSync(join(root, "wrangler.toml"), "utf8"))?.[1] ?? "";
    const given = readFileSync(join(root, ".dev.vars.example"), "utf8").match(/^\w+(?==".+")/gm);
    expect(given).toEqual(JSON.parse(`[${asked}]`));
  });
});

/** The rows of the table, by wave. */
function rowsOf(output: string): Record<string, number[]> {
  const rows = output.split("\n").map((line) => line.trim().split(/ {2,}/));
  return Object.fromEntries(
    rows.filter((row) => row.length === 6).map(([name, ...cells]) => [name, cells.map(Number)]),
  );
}

const demo = ["--conditions=leasehold-source", "examples/cloudflare-cache/demo.ts"];

describe("npm start", () => {
  test("shows 1 rebuild for 200 readers and no old value, on redis-server, and ends with 0", async () => {
    const { code, stdout, stderr } = await runCommand("npm", ["start", "--silent"]);
    expect(stderr).toBe("");
    expect(code).toBe(0);
    expect(stdout).toMatch(redisInstalled ? /^Redis: redis-server \d/ : /^Redis: memory/);
    const rows = rowsOf(stdout);
    expect(rows["cold, never built before"]?.slice(0, 2)).toEqual([200, 1]);
    expect(rows.warm?.slice(0, 2)).toEqual([200, 0]);
    expect(rows.warm?.[4]).toBe(1);
    expect(rows["cold again"]?.slice(0, 2)).toEqual([200, 1]);
    expect(rows["cold again"]?.[4]).toBeLessThanOrEqual(3);
    expect(rows["invalidated while it is rebuilt"]?.slice(0, 2)).toEqual([400, 2]);
    expect(rows["warm again"]?.slice(0, 2)).toEqual([200, 0]);
    expect(stdout).toContain("old values served after the invalidation: 0 of 600 reads");
  }, 120_000);

  test("uses the in-process Redis where no redis-server is on the PATH, and says so", async () => {
    const { code, stdout, stderr } = await runCommand(process.execPath, demo, { env: { ...env, PATH: directory } });
    expect(stderr).toBe("");
    expect(code).toBe(0);
    expect(stdout).toMatch(/^Redis: memory \(there is no redis-server on the PATH\)/);
    expect(rowsOf(stdout)["cold, never built before"]?.slice(0, 2)).toEqual([200, 1]);
  }, 120_000);

  test("says what is wrong, and ends with another code, when a part does not start", async () => {
    writeFileSync(join(directory, "redis-server"), "#!/bin/sh\necho no memory left\nexit 3\n", { mode: 0o755 });
    const ended = await runCommand(process.execPath, demo, { env: { ...env, PATH: directory } });
    expect(ended).toEqual({ code: 1, stdout: "", stderr: "redis-server ended with 3\nno memory left\n" });
  });

  test.each(["SIGINT", "SIGTERM"] as const)(
    "leaves nothing behind after %s",
    async (signal) => {
      const temporary = mkdtempSync(join(directory, "tmp-"));
      const ended = await runCommand(process.execPath, demo, { env: { ...env, TMPDIR: temporary } }, (stdout, kill) => {
        if (stdout.includes("Worker:")) kill(signal);
      });
      expect(ended).toMatchObject({ code: signal === "SIGINT" ? 130 : 143, stderr: "" });
      expect(readdirSync(temporary)).toEqual([]);
      for (const [url] of ended.stdout.matchAll(/http:\S+/g)) await expect(fetch(url)).rejects.toThrow("fetch failed");
    },
    60_000,
  );
});

describe("npm run dev", () => {
  test("keeps serving until Ctrl-C", async () => {
    const answers: Promise<unknown>[] = [];
    const ended = await runCommand(process.execPath, [...demo, "--serve"], {}, (stdout, kill) => {
      const url = /^Try (\S+),/m.exec(stdout)?.[1];
      if (url === undefined || answers.length > 0) return;
      const answer = fetch(url).then((response) => response.json());
      answers.push(answer.finally(() => kill("SIGINT")));
    });
    expect(ended.code).toBe(0);
    expect(await Promise.all(answers)).toEqual([{ id: "1", version: 1 }]);
  }, 60_000);
});

describe("figures", () => {
  const reading: Reading = { ms: 310, version: 2 };
  const wave: Wave = {
    name: "cold",
    readings: [reading],
    rebuilds: 1,
    expectedRebuilds: 1,
    requests: 2,
    fewestRequestsPerReader: 1,
    mostRequestsPerReader: 3,
  };
  const right: Figures = { floorMs: 1, waves: [wave], readsAfterInvalidation: 1, oldValues: 0 };
  const withWave = (change: Partial<Wave>): Figures => ({ ...right, waves: [{ ...wave, ...change }] });

  test("are shown one wave a line", () => {
    const readings = Array.from({ length: 200 }, (_, index) => ({ ...reading, ms: index + 1 }));
    expect(rowsOf(table(withWave({ readings, requests: 500 })))).toMatchObject({ cold: [200, 1, 100, 198, 2.5] });
  });

  test("are all right when they are as expected", () => {
    expect(faults(right)).toEqual([]);
  });

  test.each<[string, Figures]>([
    ["cold: 2 rebuilds instead of 1", withWave({ rebuilds: 2 })],
    ["cold: 4.00 requests to Redis per reader instead of 1 to 3", withWave({ requests: 4 })],
    ["cold: 0.00 requests to Redis per reader instead of 1 to 3", withWave({ requests: 0 })],
    ["cold: 1 readers got no value, the first 503", withWave({ readings: [{ ...reading, failure: "503" }] })],
    ["nobody read after the invalidation", { ...right, readsAfterInvalidation: 0 }],
    ["3 reads got a value from before the invalidation", { ...right, oldValues: 3 }],
  ])("are wrong with: %s", (fault, figures) => {
    expect(faults(figures)).toEqual([fault]);
  });

  test("show what a cache without a guard does: rebuilds for all, and old values that outlive an invalidation", async () => {
    const versions = new Map<string, number>();
    const stored = new Map<string, number>();
    let rebuilds = 0;
    const app = new Hono();
    app.get("/", (c) => c.text("a page"));
    app.get("/products/:id", async (c) => {
      const id = c.req.param("id");
      let version = stored.get(id);
      if (version === undefined) {
        rebuilds++;
        version = versions.get(id) ?? 1;
        await new Promise((resolve) => setTimeout(resolve, 300));
        stored.set(id, version);
      }
      return c.json({ id, version });
    });
    app.delete("/products/:id", (c) => {
      stored.delete(c.req.param("id"));
      return c.body(null, 204);
    });
    const server = createServer(getRequestListener(app.fetch, { overrideGlobalObjects: false }));
    const url = `http://127.0.0.1:${await listen(server)}`;
    const publish = (id: string): number => {
      const version = (versions.get(id) ?? 1) + 1;
      versions.set(id, version);
      return version;
    };
    const origin = { url: "", rebuilds: () => rebuilds, publish };
    const redis = { requests: async () => 0 };
    const stage = { urls: [url], redis, origin, rebuildMs: 300, sharesRequests: false };
    const found = faults(await measure(stage, 20));
    server.close();
    server.closeAllConnections();
    expect(found).toContain("cold, never built before: 20 rebuilds instead of 1");
    expect(found).toContainEqual(expect.stringMatching(/reads got a value from before the invalidation$/));
  });
});
