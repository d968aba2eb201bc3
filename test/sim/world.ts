/** What every run has: true time, fate, processes and nodes. */
import { Fate } from "./fate.ts";
import { SimNode } from "./node.ts";
import { Process } from "./process.ts";
import type { Profile } from "./profiles.ts";
import { Timeline } from "./timeline.ts";
import type { Report, Violation } from "./violation.ts";

export interface RunOptions {
  /** Only these faults happen, and all of them do. */
  readonly only?: readonly string[] | undefined;
  /** Fewer processes than the profile has. */
  readonly processes?: number | undefined;
}

export interface World {
  readonly timeline: Timeline;
  readonly fate: Fate;
  readonly processes: readonly Process[];
  readonly nodes: readonly SimNode[];
  readonly report: Report;
  /** The first that was reported. */
  violation(): Violation | undefined;
  /** Runs until all that was begun has ended, or a promise was broken. */
  run(): Promise<void>;
}

/** What a run has come to. */
export interface Score {
  readonly requests: number;
  /** Those that had to wait for a connection. */
  readonly queued: number;
  readonly progress: number;
  readonly overlaps: number;
  /** How long keys stood on nodes after they were first rolled back. */
  readonly orphanMs: number;
}

/** Whatever is under way when the last cycle begins has ended by then, or never will. */
const settlingMs = 30_000;

/** Ten times what the busiest run needs: something goes round in circles. */
const mostEvents = 1_000_000;

export function createWorld(profile: Profile, seed: number, options: RunOptions): World {
  const timeline = new Timeline();
  const fate = new Fate(seed, options.only);
  let violation: Violation | undefined;
  const report = (invariant: string, what: string): void => {
    violation ??= { invariant, what, atMs: timeline.now };
  };
  const nodes = Array.from({ length: profile.nodes }, (_, place) => {
    const label = `n${place}`;
    return new SimNode(label, timeline, rateOf(fate, profile, label, 1), skewOf(fate, profile, label));
  });
  const [first, ...others] = nodes;
  if (first !== undefined) first.isPrompt = others.length > 0;
  for (const node of others.slice(-1)) node.farMs = profile.network.farMs;
  const count = options.processes ?? profile.processes;
  const processes = Array.from({ length: count }, (_, place) => {
    const name = `p${place}`;
    const isBehind = profile.behindMs > 0 && place === count - 1 && fate.fault(`behind ${name}`, 1);
    return new Process(name, timeline, fate, {
      rate: rateOf(fate, profile, name, -1),
      skewMs: skewOf(fate, profile, name) - (isBehind ? profile.behindMs : 0),
      isWorker: profile.isWorker,
    });
  });
  return {
    timeline,
    fate,
    processes,
    nodes,
    report,
    violation: () => violation,
    async run() {
      const end = profile.lengthMs + settlingMs + 3 * profile.leaseMs;
      await timeline.runUntil(end, () => violation !== undefined || timeline.events > mostEvents);
      if (timeline.events > mostEvents) report("I16", `${mostEvents} events, and no end`);
    },
  };
}

/** How fast a clock runs. Both sides together stay within the drift factor of 1 %. */
function rateOf(fate: Fate, { rates }: Profile, name: string, end: 1 | -1): number {
  if (rates === "true" || !fate.fault(`rate ${name}`, 1)) return 1;
  return 1 + (rates === "opposed" ? end * 0.0049 : fate.uniform(`rate of ${name}`, -0.0049, 0.0049));
}

/** How far a wall clock is off at the start. */
function skewOf(fate: Fate, { rates, skewMs }: Profile, name: string): number {
  return rates !== "true" && fate.fault(`skew ${name}`, 1) ? fate.uniform(`skew of ${name}`, -skewMs, skewMs) : 0;
}
