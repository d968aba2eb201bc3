/**
 * Failures that were shrunk to the faults that they take. Each breaks its promise in its mutant, and none in what ships.
 * Where a change of the protocol moves its messages, shrink it anew: `npm run sim -- --mutant <name>`.
 */
import type { Replay } from "./batch.ts";

export interface Trace {
  readonly mutant: string;
  readonly invariant: string;
  readonly replay: Replay;
}

export const traces: readonly Trace[] = [
  {
    // A late reply, then a lost one: the next try finds its own grant, of which most is over.
    mutant: "M8",
    invariant: "I3",
    replay: {
      profile: "mixed",
      seed: 1,
      only: ["tail back p1/c1/acquire/n0~3#0", "drop reply p1/c1/acquire/n0~4#0"],
      processes: 3,
    },
  },
  {
    // A machine that sleeps while it holds, and whose monotonic clock sleeps with it.
    mutant: "M12",
    invariant: "I3",
    replay: { profile: "mixed", seed: 3, only: ["freeze p0 1"], processes: 1 },
  },
];
