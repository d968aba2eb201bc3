/**
 * Runs the Worker in workerd before a real Redis, sends it waves of readers and an invalidation in the middle of a
 * rebuild, and prints what that cost. Ends with 0 when every figure is as it must be, else says which one is not.
 *
 * Run: `npm start`, or `npm run dev` to keep it serving until Ctrl-C.
 *
 * @module
 */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { faults, table } from "./figures.ts";
import { startOrigin } from "./origin.ts";
import { startRedis } from "./redis.ts";
import { measure, type Stage } from "./scenario.ts";
import { startWorker } from "./workerd.ts";

const readers = 200;
const rebuildMs = 300;
const longestRunMs = 90_000;

async function start(parts: AsyncDisposableStack, verbose: boolean): Promise<Stage> {
  const directory = mkdtempSync(join(tmpdir(), "leasehold-"));
  process.once("exit", () => rmSync(directory, { recursive: true, force: true }));
  const redis = await startRedis(parts, directory);
  console.log(`Redis: ${redis.engine}, at ${redis.url} over REST`);
  const origin = await startOrigin(parts, rebuildMs);
  const vars = {
    UPSTASH_REDIS_REST_URL: redis.url,
    UPSTASH_REDIS_REST_TOKEN: redis.token,
    ORIGIN_URL: origin.url,
  };
  const workerUrl = await startWorker(parts, { directory, vars, verbose });
  console.log(`Worker: workerd, at ${workerUrl}`);
  return { workerUrl, redis, origin, rebuildMs };
}

async function demonstrate(parts: AsyncDisposableStack): Promise<number> {
  const figures = await measure(await start(parts, false), readers);
  console.log(`\n${table(figures)}\n`);
  const wrong = faults(figures);
  for (const fault of wrong) console.error(`Wrong: ${fault}`);
  if (wrong.length > 0) return 1;
  console.log(
    `However many ask at once for a product that takes ${rebuildMs} ms to build, it is built once, and what was\n` +
      "being built when the product changed is never served to anyone who asks afterwards.",
  );
  return 0;
}

async function keepServing(parts: AsyncDisposableStack): Promise<never> {
  const { workerUrl } = await start(parts, true);
  console.log(`Try ${workerUrl}/products/1, and curl -X DELETE ${workerUrl}/products/1. Ctrl-C ends it.`);
  return new Promise(() => {});
}

/** Resolves with an exit code, once all that was started has ended. */
async function run(serving: boolean): Promise<number> {
  await using parts = new AsyncDisposableStack();
  const interrupted = new Promise<number>((resolve) => {
    process.once("SIGINT", () => resolve(serving ? 0 : 130));
    process.once("SIGTERM", () => resolve(serving ? 0 : 143));
  });
  const overdue = new Promise<number>((_, reject) => {
    const reason = new Error(`Cannot finish within ${longestRunMs / 1_000} s`);
    if (!serving) setTimeout(reject, longestRunMs, reason);
  });
  try {
    return await Promise.race([interrupted, overdue, serving ? keepServing(parts) : demonstrate(parts)]);
  } catch (error) {
    console.error(error instanceof Error ? error.message : error);
    return 1;
  }
}

process.exit(await run(process.argv.includes("--serve")));
