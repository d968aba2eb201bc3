/** Runs node-redis inside workerd, which has the modules that it needs from compatibility date 2026-03-17 on. */
import { builtinModules } from "node:module";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";
import { Redis } from "ioredis";
import type { Miniflare } from "miniflare";
import { afterAll, beforeAll, expect, test } from "vitest";
import { describeRedis, type RunningRedis, startRedis } from "../../support/redis.ts";
import { startWorkerd } from "../../support/workerd.ts";

/** As wrangler bundles for a Worker with nodejs_compat: what Node has is left to the runtime. */
async function bundleWithNode(entry: URL): Promise<string> {
  const { outputFiles } = await build({
    entryPoints: [fileURLToPath(entry)],
    bundle: true,
    write: false,
    format: "esm",
    platform: "node",
    conditions: ["leasehold-source", "workerd", "worker"],
    banner: { js: 'import { createRequire } from "node:module"; const require = createRequire("/");' },
    alias: Object.fromEntries(
      builtinModules.filter((name) => !name.startsWith("_")).map((name) => [name, `node:${name}`]),
    ),
    external: ["node:*"],
  });
  return outputFiles[0]?.text ?? "";
}

describeRedis("node-redis inside workerd", () => {
  let redis: RunningRedis;
  let admin: Redis;
  let miniflare: Miniflare;
  let url: URL;

  beforeAll(async () => {
    redis = await startRedis();
    admin = new Redis(redis.port);
    const script = await bundleWithNode(new URL("tcp.ts", import.meta.url));
    const bindings = { REDIS_URL: `redis://127.0.0.1:${redis.port}` };
    miniflare = startWorkerd({ script, compatibilityDate: "2026-03-17", nodejsCompat: true, bindings });
    url = await miniflare.ready;
  }, 60_000);
  afterAll(async () => {
    admin.disconnect();
    await miniflare.dispose();
    await redis.stop();
  });

  const ask = async (path: string): Promise<unknown> => (await fetch(new URL(path, url))).json();
  const connections = async (): Promise<number> =>
    Number(/total_connections_received:(\d+)/.exec(await admin.info("stats"))?.[1]);

  test("twenty requests at once take turns, each over a connection of its own", async () => {
    const before = await connections();
    const fences = await Promise.all(Array.from({ length: 20 }, () => ask("/own?name=turns")));
    expect(new Set(fences).size).toBe(20);
    expect(fences.every(Number.isSafeInteger)).toBe(true);
    expect((await connections()) - before).toBe(20);
  });

  test("a connection that a request has left behind is of no use to the next one", async () => {
    expect(await ask("/shared?name=first")).toSatisfy(Number.isSafeInteger);
    expect(await ask("/shared?name=second")).toBe("unavailable");
  });
});
