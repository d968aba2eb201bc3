/** Runs locks and a guarded cache inside workerd, at a compatibility date before its `cache` field and at a late one. */
import { connect } from "node:net";
import type { Miniflare } from "miniflare";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { describeRedis, type RunningRestServer, startRestRedis } from "../../support/redis.ts";
import { bundleForWorkers, startWorkerd } from "../../support/workerd.ts";

const patient = { timeout: 10_000 };

describeRedis("inside workerd", () => {
  let script: string;
  let server: RunningRestServer;

  beforeAll(async () => {
    server = await startRestRedis();
    script = await bundleForWorkers(new URL("smoke.ts", import.meta.url));
  });
  afterAll(() => server.stop());

  describe.each([
    { date: "2024-09-01", cacheField: false },
    { date: "2026-11-01", cacheField: true },
  ])("at compatibility date $date", ({ date, cacheField }) => {
    let workerd: Miniflare;
    let url: URL;

    beforeAll(async () => {
      workerd = startWorkerd({
        script,
        compatibilityDate: date,
        bindings: { REST_URL: server.url, REST_TOKEN: server.token },
      });
      url = await workerd.ready;
    });
    afterAll(() => workerd.dispose());

    const pathTo = (scenario: string, name: string): string =>
      `${scenario}${scenario.includes("?") ? "&" : "?"}name=${date}-${encodeURIComponent(name)}`;
    const ask = async (scenario: string, name = ""): Promise<unknown> => {
      const response = await fetch(new URL(pathTo(scenario, name), url));
      const text = await response.text();
      expect(response.status, text).toBe(200);
      return JSON.parse(text);
    };

    // The first scenario is also the first use, in its isolate, of what all requests share.
    test.for([
      { scenario: "/read-with-waitUntil?buildMs=300", rest: "get what it built", value: "build 1" },
      { scenario: "/read?buildMs=1500", rest: "get what another builds when its lease has ended", value: "build 2" },
    ])(
      "H02 the first of 20 requests to $scenario is cancelled while it builds: 19 $rest",
      async ({ scenario, value }) => {
        const socket = connect(Number(url.port), url.hostname);
        socket.write(`GET ${pathTo(scenario, scenario)} HTTP/1.1\r\nhost: ${url.host}\r\n\r\n`);
        await expect.poll(() => ask("/builds", scenario), patient).toBe(1);
        const others = Array.from({ length: 19 }, () => ask(scenario, scenario));
        socket.resetAndDestroy(); // workerd takes a mere end for a client that still listens
        const readings = await Promise.all(others);
        expect(new Set(readings.map((reading) => Object(reading).value))).toEqual(new Set([value]));
        expect(new Set(readings.map((reading) => Object(reading).fence)).size).toBe(19);
      },
    );

    test("H03 importing every entry, and creating at global scope, reads, draws, sets and sends nothing", async () => {
      expect(await ask("/facts")).toEqual({
        runtime: "Cloudflare-Workers",
        touchedAtImport: ["Math.random"],
        cacheField,
      });
    });

    test.for(["/lock", "/upstash"])("F07 a lock keeps its word over %s", async (scenario) => {
      expect(await ask(scenario, scenario)).toEqual({
        contended: "contended",
        refused: null,
        timeout: "timeout",
        aborted: "aborted",
        extended: true,
        released: "released",
        growing: true,
      });
    });

    test("withLock renews while its task runs", async () => {
      expect(await ask("/renewal", "renewal")).toEqual({ renewedTwice: true, held: true, aborted: false });
    });

    test("the caller's signal reaches the task, and the release still goes out", async () => {
      expect(await ask("/abort", "abort")).toEqual({ seen: "Error: the caller left", freeAfterwards: "released" });
    });

    test("a value is built once for 20 requests, then served, and an invalidation during a build voids it", async () => {
      const readAll = (count: number) =>
        Promise.all(Array.from({ length: count }, () => ask("/read?buildMs=300", "value")));
      const shared = await readAll(20);
      expect(new Set(shared.map((reading) => Object(reading).value))).toEqual(new Set(["build 1"]));
      expect(shared.filter((reading) => Object(reading).status === "built")).toHaveLength(1);
      expect(await ask("/read?buildMs=300", "value")).toMatchObject({ value: "build 1", status: "hit" });

      await ask("/invalidate", "value");
      const overtaken = ask("/read?buildMs=300", "value");
      await expect.poll(() => ask("/builds", "value"), patient).toBe(2);
      await ask("/invalidate", "value");
      expect(await ask("/read?buildMs=300", "value")).toMatchObject({ value: "build 3", status: "built" });
      await overtaken;
      expect(await ask("/read?buildMs=300", "value")).toMatchObject({ value: "build 3", status: "hit" });
    });
  });
});
