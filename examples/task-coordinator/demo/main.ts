/**
 * Shows the coordinator at work: 200 tasks, 4 workers as processes, one killed and one frozen in mid-task, and a Redis that is
 * killed as well. Prints the account, and ends with 0 when every task was done exactly once.
 *
 * Run: `npm run coordinator`. With `-- --serve` it keeps going for the page until Ctrl-C, with `-- --times 20` it plays the
 * show so many times, and with `-- --unfenced` the ledger takes every write, which goes wrong. `-- --tasks 1000` is a longer
 * one.
 *
 * @module
 */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { openQueue } from "../queue.ts";
import { serveMonitor } from "../serve.ts";
import { faults, printed } from "./account.ts";
import { keepBusy } from "./busy.ts";
import { startRedis } from "./redis.ts";
import { play } from "./show.ts";
import { queueName } from "./workers.ts";

const longestRunMs = 90_000;

const { values } = parseArgs({
  options: {
    serve: { type: "boolean", default: false },
    unfenced: { type: "boolean", default: false },
    tasks: { type: "string", default: "200" },
    times: { type: "string", default: "1" },
    port: { type: "string", default: "0" },
  },
});

const tasks = count("tasks", 20);
const times = count("times", 1);
const port = count("port", 0);

/** A mistake must not look like a show that went well. */
function count(option: "tasks" | "times" | "port", least: number): number {
  const value = Number(values[option]);
  if (Number.isInteger(value) && value >= least) return value;
  const shown = JSON.stringify(values[option]);
  console.error(`Cannot use --${option} as it must be a whole number from ${least}: current value is ${shown}`);
  process.exit(2);
}

/** Plays it once, on a Redis of its own. Resolves with an exit code. */
async function perform(parts: AsyncDisposableStack): Promise<number> {
  const directory = mkdtempSync(join(tmpdir(), "leasehold-"));
  const remove = (): void => rmSync(directory, { recursive: true, force: true });
  process.once("exit", remove);
  parts.defer(() => {
    remove();
    process.off("exit", remove);
  });
  const redis = await startRedis(parts, directory);
  console.log(`Redis: redis-server ${redis.version}, which has each write on disk before it answers`);
  const queue = openQueue(redis.client, queueName);
  const { url, close } = await serveMonitor(queue, { port });
  parts.defer(close);
  console.log(`Page: ${url}`);
  if (values.serve) return keepBusy(parts, redis, queue);

  const settings = {
    tasks,
    workers: 4,
    leaseMs: 1_000,
    fenced: !values.unfenced,
    say: console.log,
  };
  const account = await play(parts, redis, queue, settings);
  console.log(`\n${printed(account)}\n`);
  const wrong = faults(account);
  for (const fault of wrong) console.error(`Wrong: ${fault}`);
  if (wrong.length > 0) return 1;
  console.log("Every task was done exactly once.");
  return 0;
}

// A second Ctrl-C changes nothing: ending the parts takes 3 s at most, and what is cut off there would be left behind.
const interrupted = new Promise<number>((resolve) => {
  process.on("SIGINT", () => resolve(values.serve ? 0 : 130));
  process.on("SIGTERM", () => resolve(values.serve ? 0 : 143));
});

/** Resolves with an exit code, once all that was started has ended. */
async function run(): Promise<number> {
  await using parts = new AsyncDisposableStack();
  const overdue = new Promise<number>((_, reject) => {
    if (values.serve) return;
    const late = setTimeout(reject, longestRunMs, new Error(`Cannot finish within ${longestRunMs / 1_000} s`));
    parts.defer(() => clearTimeout(late));
  });
  try {
    return await Promise.race([interrupted, overdue, perform(parts)]);
  } catch (error) {
    console.error(error instanceof Error ? error.message : error);
    return 1;
  }
}

let code = 0;
for (let time = 1; time <= times && code === 0; time++) {
  if (times > 1) console.log(`\n--- ${time} of ${times}`);
  code = await run();
}
process.exit(code);
