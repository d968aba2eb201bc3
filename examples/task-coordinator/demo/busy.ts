/**
 * Keeps the queue busy, for whoever looks at the page: tasks of every kind, some of which fail for good.
 *
 * @module
 */
import { setTimeout as sleep } from "node:timers/promises";
import { priorities } from "../keys.ts";
import type { Queue } from "../queue.ts";
import { startLedger } from "./ledger.ts";
import type { RunningRedis } from "./redis.ts";
import { type Job, Workers } from "./workers.ts";

/** Goes on for ever. */
export async function keepBusy(parts: AsyncDisposableStack, redis: RunningRedis, queue: Queue): Promise<never> {
  const ledger = await startLedger(parts, { fenced: true, onTouch: () => {} });
  const schedule = { name: "every-15-s", everyMs: 15_000, payload: { ms: 2_000, failures: 0 } };
  new Workers(parts, 4, redis, { ledgerUrl: ledger.url, leaseMs: 5_000, schedule });
  console.log("Ctrl-C ends it.");
  for (let place = 1; ; place++) {
    const payload = { ms: 500 + Math.random() * 6_000, failures: place % 7 === 0 ? 2 : 0 } satisfies Job;
    const priority = priorities[Math.floor(Math.random() * priorities.length)] ?? "normal";
    const delayMs = place % 5 === 0 ? 10_000 : 0;
    await queue.enqueue(payload, { id: `job-${place}`, priority, delayMs, maxAttempts: place % 14 === 0 ? 2 : 5 });
    await sleep(900);
  }
}
