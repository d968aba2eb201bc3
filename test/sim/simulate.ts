/** One run: a profile and a seed decide everything that happens in it. */
import { runCaches } from "./cache-run.ts";
import { runLocks } from "./lock-run.ts";
import { profileOf } from "./profiles.ts";
import type { Violation } from "./violation.ts";
import { createWorld, type RunOptions } from "./world.ts";

export interface Run {
  /** The first that was seen; the run ends there. */
  readonly violation: Violation | undefined;
  readonly faults: readonly string[];
  readonly events: number;
  /** A hash of when each event took place. */
  readonly course: number;
  readonly requests: number;
  readonly queued: number;
  /** Leases acquired, or reads served. */
  readonly progress: number;
  /** Times at which two held at once, or one acted after a later holder, where exclusion is not promised. */
  readonly overlaps: number;
  readonly orphanMs: number;
  readonly processes: number;
}

/** Runs one seed of a profile. */
export async function simulate(name: string, seed: number, options: RunOptions = {}): Promise<Run> {
  const profile = profileOf(name);
  const world = createWorld(profile, seed, options);
  const { report, timeline, fate, processes } = world;
  const onRejection = (error: unknown): void => report("I0", `nobody waits for ${String(error)}`);
  process.on("unhandledRejection", onRejection);
  const score = profile.kind === "lock" ? await runLocks(world, profile) : await runCaches(world, profile);
  process.off("unhandledRejection", onRejection);
  return {
    violation: world.violation(),
    faults: [...fate.faults],
    events: timeline.events,
    course: timeline.course,
    processes: processes.length,
    ...score,
  };
}
