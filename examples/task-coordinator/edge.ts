/**
 * The coordinator as a Cloudflare Worker: a cron trigger fires the schedule, sweeps and works; the monitor answers requests.
 *
 * Run it with `npx wrangler dev --config examples/task-coordinator/wrangler.toml --test-scheduled`.
 *
 * @module
 */
import type { CommandClient } from "leasehold";
import { restClient } from "leasehold/rest";
import { monitor } from "./monitor.ts";
import { openQueue, type Queue } from "./queue.ts";
import { fire, type Schedule } from "./schedule.ts";
import { sweep } from "./sweeper.ts";
import { type Handler, runNext } from "./worker.ts";

interface Env {
  /** Secrets: `npx wrangler secret put UPSTASH_REDIS_REST_URL`, and so on. */
  readonly UPSTASH_REDIS_REST_URL: string;
  readonly UPSTASH_REDIS_REST_TOKEN: string;
  /** What the page asks for. */
  readonly MONITOR_TOKEN: string;
}

/** Cron triggers may come twice, or late: it is the slot that is fired once. */
const everyMinute: Schedule = { name: "minute", everyMs: 60_000, payload: { kind: "report" } };

/** A trigger ends well before the next; what it leaves is for that one. */
const budgetMs = 25_000;

/** Your work goes here. What it writes must refuse smaller fences: an attempt that lost its lease may still run. */
const handler: Handler = async ({ id, payload }, { fence, progress }) => {
  await progress(50, "half-way");
  return { id, payload, fence };
};

function queueOf({ UPSTASH_REDIS_REST_URL: url, UPSTASH_REDIS_REST_TOKEN: token }: Env): Queue {
  const client: CommandClient = restClient({ url, token });
  return openQueue(client, "jobs");
}

export default {
  fetch(request: Request, env: Env): Response | Promise<Response> {
    if (!env.MONITOR_TOKEN) return new Response("The secret MONITOR_TOKEN is not set", { status: 500 });
    return monitor(queueOf(env), { token: env.MONITOR_TOKEN }).fetch(request);
  },

  async scheduled({ scheduledTime }: { readonly scheduledTime: number }, env: Env): Promise<void> {
    const until = Date.now() + budgetMs;
    const queue = queueOf(env);
    await fire(queue, everyMinute, scheduledTime);
    await sweep(queue, { tell: console.log });
    const settings = { worker: `cron-${scheduledTime}`, handler, leaseMs: 30_000, tell: console.log };
    while (Date.now() < until && (await runNext(queue, settings)) !== "idle");
  },
};
