/** The process of a batch: patches what it is told to before it loads anything that ships. */
import { once } from "node:events";
import { applyPatches } from "../mutants/patch.ts";
import type { Batch, BatchRequest, Failure, Told } from "./batch.ts";

const [request] = (await once(process, "message")) as [BatchRequest];
const told: Told = await runSeeds(request).then(
  (batch) => ({ batch }),
  (error: unknown) => ({ error }),
);
process.send?.(told, () => process.disconnect()); // sooner, what is not yet written would be lost

async function runSeeds({
  profile,
  from,
  seeds,
  patches = [],
  untilFirst,
  shrinks,
  only,
  processes,
}: BatchRequest): Promise<Batch> {
  // Many errors are made and few are read: a stack is what costs most. A replay has them.
  Error.stackTraceLimit = 0;
  applyPatches(patches);
  const { simulate } = await import("./simulate.ts");
  const { shrunk } = await import("./shrink.ts");

  const startedAt = performance.now();
  const failures: Failure[] = [];
  let [run, events, requests, queued, progress, overlaps, orphanMs] = [0, 0, 0, 0, 0, 0, 0];
  for (let seed = from; seed < from + seeds; seed += 1) {
    const result = await simulate(profile, seed, { only, processes });
    run += 1;
    events += result.events;
    requests += result.requests;
    queued += result.queued;
    progress += result.progress;
    overlaps += result.overlaps;
    orphanMs += result.orphanMs;
    if (result.violation === undefined) continue;
    const whole: Failure = { replay: { profile, seed, only, processes }, violation: result.violation };
    failures.push(shrinks && failures.length === 0 ? await shrunk(whole, result) : whole);
    if (untilFirst) break;
  }
  const seconds = (performance.now() - startedAt) / 1_000;
  return { profile, seeds: run, failures, events, requests, queued, progress, overlaps, orphanMs, seconds };
}
