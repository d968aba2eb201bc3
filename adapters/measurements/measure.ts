/**
 * What each event means in numbers.
 *
 * @module
 */
import type { Stamp } from "../../src/clock.ts";
import type { LeaseholdEvent } from "../../src/events.ts";
import * as metrics from "./catalogue.ts";
import type { Ended, Holds } from "./holds.ts";

/** The labels of one measurement. */
export type Labels = { readonly [label in metrics.Label]?: string };

/** One measurement. */
export type Point = readonly [metric: metrics.Metric, value: number, labels?: Labels];

/** Something that took a while, as a trace shows it. */
export interface Stretch {
  readonly what: "acquire" | "hold";
  readonly ms: number;
  /** How long it has been over. */
  readonly agoMs: number;
  readonly result: string;
  readonly failed: boolean;
}

/** What one event came to. */
export interface Measured {
  readonly points: readonly Point[];
  readonly stretch?: Stretch | undefined;
}

/** A lease that is prolonged or released from here on was nearly lost. */
const nearMissPart = 0.8;

/** The measurements of an event that came now. Keeps `holds` up to date. */
export function measure(event: LeaseholdEvent, holds: Holds, now: Stamp): Measured {
  switch (event.type) {
    case "acquired":
      holds.begin(event, event.remainingMs, now);
      return acquisition(event.durationMs, "acquired", [metrics.leases, event.remainingMs / 1_000]);
    case "acquire-failed":
      return acquisition(event.durationMs, event.code);
    case "extended":
    case "renewed":
      return {
        points: [result(metrics.renewals, event.type), ...nearMiss(holds.prolong(event, event.remainingMs, now))],
      };
    case "renewal-unknown":
      return { points: [result(metrics.renewals, "unknown")] };
    case "lost":
      return loss(holds.end(event, now), metrics.lossResults[event.by]);
    case "released": {
      // The hold was over when the release was sent.
      const ended = holds.end(event, now, event.durationMs);
      if (event.outcome === "released") return letGo(ended, event.durationMs, "released");
      return ended ? loss(ended, metrics.lossResults[event.outcome], event.durationMs) : { points: [] }; // else told as lost
    }
    case "release-failed":
      return letGo(holds.end(event, now, event.durationMs), event.durationMs, "release_failed");
    case "held-long":
      return { points: [[metrics.longHolds, 1]] };
    case "hit":
      return { points: [result(metrics.hits, "fresh")] };
    case "stale":
      return { points: [result(metrics.hits, "stale")] };
    case "built":
      return { points: [result(metrics.builds, event.stored ? "stored" : "unstored")] };
    case "build-failed":
      return { points: [result(metrics.builds, "failed")] };
    case "commit-refused":
      return { points: [result(metrics.refusedCommits, event.reason)] };
    default:
      return { points: [] };
  }
}

function result(metric: metrics.Metric, value: string): Point {
  return [metric, 1, { result: value }];
}

function acquisition(ms: number, code: string, ...more: Point[]): Measured {
  const points = [result(metrics.acquisitions, code), [metrics.waits, ms / 1_000, { result: code }] as const, ...more];
  const failed = !/^(acquired|contended|aborted)$/.test(code);
  return { points, stretch: { what: "acquire", ms, agoMs: 0, result: code, failed } };
}

function loss(ended: Ended | undefined, code: string, agoMs = 0): Measured {
  const hold = holdOf(ended, agoMs, code, true);
  return { ...hold, points: [result(metrics.acquisitions, code), ...hold.points] };
}

function letGo(ended: Ended | undefined, agoMs: number, code: string): Measured {
  const hold = holdOf(ended, agoMs, code, false);
  return { ...hold, points: [...hold.points, ...nearMiss(ended?.used)] };
}

function holdOf(ended: Ended | undefined, agoMs: number, code: string, failed: boolean): Measured {
  if (!ended) return { points: [] };
  const { heldMs: ms, mostUsed } = ended;
  const points: Point[] = [
    [metrics.holds, ms / 1_000, { result: code }],
    [metrics.uses, mostUsed],
  ];
  return { points, stretch: { what: "hold", ms, agoMs, result: code, failed } };
}

function nearMiss(used = 0): Point[] {
  return used < nearMissPart ? [] : [[metrics.nearMisses, 1]];
}
