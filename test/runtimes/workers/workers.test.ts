/** Runs locks and a guarded cache inside workerd, at a compatibility date before its `cache` field and at a late one. */
import { connect } from "node:net";
import type { Miniflare } from "miniflare";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import workerd from "workerd/package.json" with { type: "json" };
import { describeRedis, type RunningRestServer, startRestRedis } from "../../support/redis.ts";
import { bundleForWorkers, startWorkerd } from "../../support/workerd.ts";
import { expected } from "../scenario.ts";

const patient = { timeout: 30_000 };
const dates = [
  { date: "2024-09-01", cacheField: false },
  { date: "2026-11-01", cacheField: true },
];
console.log(`Runtimes: workerd ${workerd.version}, as of ${dates.map(({ date }) => date).join(" and ")}`);

describeRedis("inside workerd", () => {
  let script: string;
  let servers: RunningRestServer[];

  beforeAll(async () => {
    servers = await Promise.all(Array.from({ length: 3 }, () => startRestRedis()));
    script = await bundleForWorkers(new URL("smoke.ts", import.meta.url));
  });
  afterAll(async () => {
    for (const server of servers) await server.stop();
  });

  describe.each(dates)("at compatibility date $date", { timeout: 60_000 }, ({ date, cacheField }) => {
    let miniflare: Miniflare;
    let url: URL;

    beforeAll(async () => {
      miniflare = startWorkerd({
        script,
        compatibilityDate: date,
        bindings: { REST_URLS: servers.map(({ url }) => url), REST_TOKEN: String(servers[0]?.token) },
      });
      url = await miniflare.ready;
    });
    afterAll(() => miniflare.dispose());

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

    test("the scenario of all runtimes comes to what it must", async () => {
      // No promise crosses requests here, and the earlier date has no `process` to tell in which build a read is made.
      const stampede = { ...Object(expected.stampede), shared: false };
      const reentry = date === "2024-09-01" ? "timeout" : "config";
      expect(await ask("/scenario", "scenario")).toEqual({ ...expected, stampede, reentry });
    });

    test("F07 a lock keeps its word over @upstash/redis", async () => {
      expect(await ask("/upstash", "upstash")).toEqual(expected.cycle);
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
