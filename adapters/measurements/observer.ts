/**
 * An observer over any meter.
 *
 * @module
 */
import type { Clock } from "../../src/clock.ts";
import type { Observer } from "../../src/events.ts";
import { catalogue, type Metric } from "./catalogue.ts";
import { createHolds } from "./holds.ts";
import { type LabelOptions, labelling } from "./labels.ts";
import { type Labels, measure, type Stretch } from "./measure.ts";
import { votesOf } from "./votes.ts";

/** Takes the measurements of one metric. */
export type Instrument = (value: number, labels: Labels) => void;

/** A stretch of time that is over, by the wall clock in ms, with what it belongs to. */
export interface TimedStretch extends Stretch {
  readonly fromMs: number;
  readonly toMs: number;
  readonly name: string | undefined;
  readonly fence: number | undefined;
}

/** Where measurements go. */
export interface Meters {
  instrument(metric: Metric): Instrument;
  stretch?(stretch: TimedStretch): void;
}

/**
 * Keeps the metrics of the catalogue. The clock is read before any meter is called, and whatever a meter throws or rejects
 * with is dropped, one measurement at a time.
 *
 * @throws LockError "config" for an option that is out of bounds; whatever `instrument` throws
 */
export function measuringObserver(meters: Meters, options: LabelOptions, clock: Clock): Observer {
  const { nameOf, nodeOf } = labelling(options);
  const instruments = new Map(catalogue.map((metric) => [metric, meters.instrument(metric)]));
  const holds = createHolds();
  const begun = new Set<string | undefined>();

  const attempt = (work: () => void): void => {
    (async () => work())().catch(() => {});
  };
  const record = (metric: Metric, value: number, name: string | undefined, { node, result }: Labels): void => {
    const labels = {
      ...(name !== undefined && { name }),
      ...(node !== undefined && { node: nodeOf(node) }),
      ...(result !== undefined && { result }),
    };
    if (Number.isFinite(value)) attempt(() => instruments.get(metric)?.(value, labels));
  };
  // A counter that first appears with its first count is no rise to Prometheus.
  const begin = (name: string | undefined): void => {
    if (begun.has(name)) return;
    begun.add(name);
    for (const metric of catalogue) {
      if (metric.type === "counter" && !metric.labels.length) record(metric, 0, name, {});
      for (const result of metric.results) record(metric, 0, name, { result });
    }
  };
  if (!options.label) begin(undefined);

  return (event) => {
    const now = clock.now();
    const { points, stretch } = measure(event, holds, now);
    const name = nameOf(event.name);
    begin(name);
    for (const [metric, value, labels = {}] of [...points, ...votesOf(event)]) record(metric, value, name, labels);
    if (!stretch) return;
    const toMs = now.wall - stretch.agoMs;
    const fence = "fence" in event ? event.fence : undefined;
    attempt(() => meters.stretch?.({ ...stretch, fromMs: toMs - stretch.ms, toMs, name, fence }));
  };
}
