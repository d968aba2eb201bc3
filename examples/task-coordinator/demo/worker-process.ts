/**
 * One worker of the demonstration, as a process: `LEASEHOLD_WORKER` has its settings as JSON. Ends with its parent.
 *
 * @module
 */
import { setTimeout as sleep } from "node:timers/promises";
import { Redis } from "ioredis";
import type { CommandClient } from "leasehold";
import { ioredisClient } from "leasehold/ioredis";
import { restClient } from "leasehold/rest";
import { openQueue } from "../queue.ts";
import { keepFiring } from "../schedule.ts";
import { keepSweeping } from "../sweeper.ts";
import { type Handler, work } from "../worker.ts";
import { type Job, queueName, type WorkerProcess } from "./workers.ts";

const { worker, redis, ledgerUrl, leaseMs, schedule }: WorkerProcess = JSON.parse(process.env.LEASEHOLD_WORKER ?? "");
const stopping = new AbortController();
process.once("SIGTERM", () => stopping.abort());
process.once("SIGINT", () => {}); // Ctrl-C in a terminal reaches all: the parent says when to end
process.once("disconnect", () => process.exit());

async function tellLedger(task: string, step: "touch" | "write", fence: number): Promise<{ made: number }> {
  const body = JSON.stringify({ fence, worker });
  const response = await fetch(`${ledgerUrl}/${task}/${step}`, { method: "POST", body });
  if (!response.ok) throw new Error(`The ledger answered ${response.status}`);
  return response.json() as Promise<{ made: number }>;
}

/**
 * Makes the ledger's entry of the task. It is careless on purpose: it does not look at `signal`, and so goes on after its
 * lease has ended. The fence is what keeps that from doing harm.
 */
const makeEntry: Handler = async ({ id, payload, attempt }, { fence, progress }) => {
  const { ms, failures } = payload as unknown as Job;
  if (attempt <= failures) throw new Error(`Something went wrong in attempt ${attempt}`);
  const { made } = await tellLedger(id, "touch", fence);
  for (const step of [1, 2, 3, 4]) {
    await sleep(ms / 4);
    await progress(step * 25, `step ${step} of 4`);
  }
  if (made === 0) await tellLedger(id, "write", fence);
  return "in the ledger";
};

function connect(): { client: CommandClient; end: () => void } {
  if ("url" in redis) return { client: restClient(redis), end: () => {} };
  const connection = new Redis({ ...redis, host: "127.0.0.1", retryStrategy: () => 50 });
  connection.on("error", () => {}); // the loops outlast an outage
  return { client: ioredisClient(connection), end: () => connection.disconnect() };
}

const { client, end } = connect();
const queue = openQueue(client, queueName);
const { signal } = stopping;
await Promise.all([
  work(queue, { worker, handler: makeEntry, leaseMs, pollMs: 100, backoff: { firstMs: 200 }, signal }),
  keepSweeping(queue, { everyMs: 500, startMs: leaseMs, signal }),
  schedule && keepFiring(queue, schedule, { signal }),
]);
end();
process.disconnect();
