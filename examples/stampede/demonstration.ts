/**
 * Runs an example before a Redis and a slow shop, sends it waves of readers and an invalidation in the middle of a
 * rebuild, and prints what that cost. Ends with 0 when every figure is as it must be, else says which one is not.
 *
 * @module
 */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { faults, table } from "./figures.ts";
import { type Origin, startOrigin } from "./origin.ts";
import { type Redis, startRedis } from "./redis.ts";
import { measure, type Stage } from "./scenario.ts";

const rebuildMs = 300;
const longestRunMs = 90_000;

/** What an example finds around it. */
export interface Surroundings {
  readonly redis: Redis;
  readonly origin: Origin;
  /** For what it writes; gone afterwards. */
  readonly directory: string;
  /** Show what its programs write; else it is kept for the error. */
  readonly verbose: boolean;
}

/** An example, and how it is asked. */
export interface Example {
  /** What it is, as "Worker: workerd". */
  readonly title: string;
  /** How many ask at once. */
  readonly readers: number;
  /** How it speaks to Redis: HTTP, where an in-process stand-in will do, or TCP, where it needs a `redis-server`. */
  readonly speaks: "http" | "tcp";
  /** Set where readers in one process share their requests to Redis, so that some cause none. */
  readonly sharesRequests?: boolean;
  /** Starts it and resolves with its URLs, one for each process. */
  start(parts: AsyncDisposableStack, surroundings: Surroundings): Promise<readonly string[]>;
}

/** Runs an example to its figures, or with `--serve` until Ctrl-C, and ends this process. */
export async function demonstrate(example: Example): Promise<never> {
  process.exit(await run(example, process.argv.includes("--serve")));
}

async function start(parts: AsyncDisposableStack, example: Example, verbose: boolean): Promise<Stage> {
  const directory = mkdtempSync(join(tmpdir(), "leasehold-"));
  process.once("exit", () => rmSync(directory, { recursive: true, force: true }));
  const redis = await startRedis(parts, directory, example.speaks);
  console.log(`Redis: ${redis.engine}${redis.url && `, at ${redis.url} over REST`}`);
  const origin = await startOrigin(parts, rebuildMs);
  const urls = await example.start(parts, { redis, origin, directory, verbose });
  console.log(`${example.title}, at ${urls.join(", ")}`);
  return { urls, redis, origin, rebuildMs, sharesRequests: example.sharesRequests === true };
}

async function show(parts: AsyncDisposableStack, example: Example): Promise<number> {
  const figures = await measure(await start(parts, example, false), example.readers);
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

async function keepServing(parts: AsyncDisposableStack, example: Example): Promise<never> {
  const { urls } = await start(parts, example, true);
  console.log(`Try ${urls[0]}/products/1, and curl -X DELETE ${urls[0]}/products/1. Ctrl-C ends it.`);
  return new Promise(() => {});
}

/** Resolves with an exit code, once all that was started has ended. */
async function run(example: Example, serving: boolean): Promise<number> {
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
    return await Promise.race([interrupted, overdue, serving ? keepServing(parts, example) : show(parts, example)]);
  } catch (error) {
    console.error(error instanceof Error ? error.message : error);
    return 1;
  }
}
