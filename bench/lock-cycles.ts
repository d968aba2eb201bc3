/**
 * Lock cycles against a floor written by hand, on one Redis in one run: `npm run bench`.
 *
 * Each figure is the median of paired rounds, floor and lock in turn, so that it holds on a machine whose speed drifts.
 * Each scenario has a process of its own, as a user has one kind of client: with several, the engine compiles the code that
 * they share for all of them, and slower.
 */
import { execFile } from "node:child_process";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { type Result, scenarios } from "./scenarios.ts";
import { farMs, startRedis, startRest } from "./servers.ts";

const redis = await startRedis();
const near = await startRest(redis.port, 0);
const far = await startRest(redis.port, farMs);
try {
  console.log(`Node ${process.version}, cycles per second (medians of paired rounds)\n`);
  console.log("scenario                                    floor     lock   ratio  wanted");
  for (const [place, { name, wanted }] of scenarios.entries()) {
    const { floor, lock, ratio } = await measure(place);
    const figures = [floor.toFixed(0).padStart(8), lock.toFixed(0).padStart(8), ratio.toFixed(2).padStart(7)];
    const least = wanted > 0 ? wanted.toFixed(2).padStart(7) : "";
    console.log(name.padEnd(41), ...figures, least, ratio < wanted ? "MISSED" : "");
    if (ratio < wanted) process.exitCode = 1;
  }
} finally {
  await Promise.all([near.stop(), far.stop()]);
  await redis.stop();
}

async function measure(place: number): Promise<Result> {
  const script = fileURLToPath(new URL("./scenario-process.ts", import.meta.url));
  const args = ["--conditions=leasehold-source", script, place, redis.port, near.port, far.port].map(String);
  const { stdout } = await promisify(execFile)(process.execPath, args, { timeout: 300_000 });
  return JSON.parse(stdout) as Result;
}
