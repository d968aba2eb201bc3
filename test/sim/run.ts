/**
 * Runs the simulator, and exits with 1 if any promise was broken:
 *
 *   node --conditions=leasehold-source test/sim/run.ts --profile greedy --seeds 2000 --from 0
 *   node --conditions=leasehold-source test/sim/run.ts --mutant M1
 *   node --conditions=leasehold-source test/sim/run.ts --replay '{"profile":"mixed","seed":7}'
 *
 * Without a profile it runs all of them; a mutant runs in its own.
 */
import { availableParallelism } from "node:os";
import { parseArgs } from "node:util";
import { mutantOf } from "../mutants/mutants.ts";
import { applyPatches } from "../mutants/patch.ts";
import { type Batch, joined, type Replay, runBatch } from "./batch.ts";
import { failureText } from "./failure-text.ts";
import { excess, profileNames, shortfall } from "./profiles.ts";

const { values } = parseArgs({
  options: {
    profile: { type: "string", multiple: true },
    seeds: { type: "string", default: "100" },
    from: { type: "string", default: "0" },
    jobs: { type: "string", default: String(Math.min(2, availableParallelism())) },
    mutant: { type: "string" },
    replay: { type: "string" },
  },
});

const mutant = values.mutant === undefined ? undefined : mutantOf(values.mutant);
const patches = mutant?.patches ?? [];
if (values.replay === undefined) {
  const profiles = values.profile ?? (mutant ? [mutant.profile] : profileNames);
  for (const profile of profiles) if (!(await isClean(profile))) process.exitCode = 1;
} else {
  applyPatches(patches);
  const { simulate } = await import("./simulate.ts");
  const { profile, seed, ...options } = JSON.parse(values.replay) as Replay;
  const { violation } = await simulate(profile, seed, options);
  console.log(violation ?? "clean");
  if (violation !== undefined) process.exitCode = 1;
}

/** Whether all seeds were clean. */
async function isClean(profile: string): Promise<boolean> {
  const [seeds, from, jobs] = [count("seeds", 1), count("from", 0), count("jobs", 1)];
  const each = Math.ceil(seeds / jobs);
  const starts = Array.from({ length: jobs }, (_, job) => job * each).filter((start) => start < seeds);
  const batch = joined(
    await Promise.all(
      starts.map((start) =>
        runBatch({ profile, from: from + start, seeds: Math.min(each, seeds - start), patches, shrinks: true }),
      ),
    ),
  );
  console.log(summary(batch));
  const [first] = batch.failures;
  if (first !== undefined) console.log(failureText(first, values.mutant));
  const [left, slow] = [excess(batch), shortfall(batch)];
  if (left !== undefined) console.log(`  I9: ${left}`);
  if (slow !== undefined) console.log(`  I10: ${slow}`);
  return first === undefined && left === undefined && slow === undefined;
}

function count(option: "seeds" | "from" | "jobs", least: number): number {
  const value = Number(values[option]);
  if (Number.isInteger(value) && value >= least) return value;
  throw new Error(`--${option} must be a whole number from ${least}: current value is ${values[option]}`);
}

function summary({ profile, seeds, failures, progress, requests, events, overlaps, orphanMs, seconds }: Batch): string {
  const broken = new Map<string, number>();
  for (const { violation } of failures) broken.set(violation.invariant, (broken.get(violation.invariant) ?? 0) + 1);
  const verdict = failures.length === 0 ? "clean" : [...broken].map(([name, count]) => `${count} x ${name}`).join(", ");
  const perSeed = (count: number, digits = 1): string => (count / seeds).toFixed(digits);
  return (
    `${profile.padEnd(10)} ${seeds} seeds: ${verdict}; a seed ${perSeed(progress, 2)} leases or reads, ` +
    `${perSeed(requests)} requests, ${perSeed(events)} events, ${perSeed(overlaps)} overlaps, ` +
    `${perSeed(orphanMs)} ms of keys left behind; ` +
    `${(seeds / seconds).toFixed(0)} seeds/s`
  );
}
