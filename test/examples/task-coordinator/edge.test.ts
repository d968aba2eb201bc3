/** The coordinator as a Worker, in workerd. */
import { spawnSync } from "node:child_process";
import { mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import type { Miniflare } from "miniflare";
import { afterAll, beforeAll, expect, test } from "vitest";
import worker from "../../../examples/task-coordinator/edge.ts";
import { describeRedis } from "../../support/redis.ts";
import { bundleForWorkers, startWorkerd } from "../../support/workerd.ts";
import { begin, endLease, fieldOf, placesOf, totalsOf, useLab } from "./lab.ts";

const root = fileURLToPath(new URL("../../../", import.meta.url));
const entry = new URL("../../../examples/task-coordinator/edge.ts", import.meta.url);
const token = "a-long-random-text";

describeRedis("the coordinator in workerd", () => {
  const lab = useLab();
  let workerd: Miniflare;
  let url: URL;

  beforeAll(async () => {
    workerd = startWorkerd({
      script: await bundleForWorkers(entry),
      compatibilityDate: "2026-11-01",
      bindings: {
        UPSTASH_REDIS_REST_URL: lab.server.url,
        UPSTASH_REDIS_REST_TOKEN: lab.server.token,
        MONITOR_TOKEN: token,
      },
    });
    url = await workerd.ready;
  });
  afterAll(() => workerd?.dispose());

  const trigger = async (scheduledTime: Date): Promise<unknown> => {
    const { scheduled } = await workerd.getWorker();
    return scheduled({ scheduledTime, cron: "* * * * *" });
  };

  test("a cron trigger fires its slot, works off the queue, and puts back what a dead worker had", async () => {
    const queue = lab.queue();
    await queue.enqueue({ of: "dead" }, { id: "dead" });
    await begin(queue, "dead-worker");
    await endLease(queue, "dead");
    await queue.enqueue({ of: "new" }, { id: "new" });
    const minute = new Date(Math.floor(Date.now() / 60_000) * 60_000);
    expect(await trigger(minute)).toMatchObject({ outcome: "ok" });
    expect(await totalsOf(queue)).toMatchObject({ enqueued: 3, completed: 3, recovered: 1 });
    expect(await placesOf(queue, `minute@${minute.getTime()}`)).toEqual(["completed"]);
    expect(await fieldOf(queue, "dead", "attempts")).toBe("2");
  });

  test("a trigger that comes twice, or twice at once, fires its slot once", async () => {
    const minute = new Date(Math.floor(Date.now() / 60_000) * 60_000);
    await Promise.all([trigger(minute), trigger(minute)]);
    await trigger(minute);
    expect(await totalsOf(lab.queue())).toEqual({ enqueued: 1, attempts: 1, completed: 1 });
  });

  test("answers the monitor's requests, to whoever has the token", async () => {
    await lab.queue().enqueue(1, { id: "a" });
    const ask = (headers = {}): Promise<Response> => fetch(new URL("/api/state", url), { headers });
    expect((await ask()).status).toBe(401);
    expect(await (await ask({ authorization: `Bearer ${token}` })).json()).toMatchObject({ pending: [{ id: "a" }] });
  });
});

test("without a token the Worker answers nobody", async () => {
  const env = { UPSTASH_REDIS_REST_URL: "http://127.0.0.1:9", UPSTASH_REDIS_REST_TOKEN: "t", MONITOR_TOKEN: "" };
  const response = await worker.fetch(new Request("http://localhost/api/state"), env);
  expect([response.status, await response.text()]).toEqual([500, "The secret MONITOR_TOKEN is not set"]);
});

test("wrangler deploys it with its page, and with nothing but web globals in the bundle", () => {
  const out = mkdtempSync(join(tmpdir(), "leasehold-edge-"));
  try {
    const config = join(root, "examples/task-coordinator/wrangler.toml");
    const wrangler = join(root, "node_modules/wrangler/bin/wrangler.js");
    const args = [wrangler, "deploy", "--dry-run", "--outdir", out, "--config", config];
    const env = { ...process.env, CI: "1", WRANGLER_SEND_METRICS: "false", XDG_CONFIG_HOME: out };
    const { status, stderr } = spawnSync(process.execPath, args, { cwd: root, env, encoding: "utf8" });
    expect(status, stderr).toBe(0);
    expect(readFileSync(join(out, "edge.js"), "utf8")).not.toMatch(/["']node:/);
    expect(readdirSync(join(root, "examples/task-coordinator/dist")).sort()).toEqual([
      "_headers",
      "index.html",
      "page.css",
      "page.js",
    ]);
  } finally {
    rmSync(out, { recursive: true, force: true });
  }
}, 60_000);
