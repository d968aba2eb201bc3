/**
 * An observer over a meter of OpenTelemetry, and over a tracer where spans are wanted.
 *
 * @module
 */
import { type Clock, systemClock } from "../src/clock.ts";
import { field } from "../src/command.ts";
import { configError } from "../src/errors.ts";
import type { Observer } from "../src/events.ts";
import type { LabelOptions } from "./measurements/labels.ts";
import { measuringObserver, type TimedStretch } from "./measurements/observer.ts";

/** What a measurement or a span is told apart by. */
export interface OpenTelemetryAttributes {
  readonly [name: string]: string | number;
}

/** What is said of an instrument. */
export interface OpenTelemetryInstrumentOptions {
  readonly description: string;
  readonly unit: string;
  readonly advice?: { readonly explicitBucketBoundaries: number[] };
}

/** What is asked of a meter: a shape, so that any version of the API from 1.3 on will do. */
export interface OpenTelemetryMeter {
  createCounter(
    name: string,
    options: OpenTelemetryInstrumentOptions,
  ): { add(value: number, attributes: OpenTelemetryAttributes): void };
  createHistogram(
    name: string,
    options: OpenTelemetryInstrumentOptions,
  ): { record(value: number, attributes: OpenTelemetryAttributes): void };
}

/** What is asked of a tracer. */
export interface OpenTelemetryTracer {
  startSpan(
    name: string,
    options: { readonly startTime: number; readonly attributes: OpenTelemetryAttributes },
  ): { setStatus(status: { readonly code: number; readonly message: string }): unknown; end(endTime: number): void };
}

/** Options of {@link openTelemetryObserver}. */
export interface OpenTelemetryObserverOptions extends LabelOptions {
  /** Gets a span "leasehold.acquire" for each acquisition and "leasehold.hold" for each lease, once they are over. */
  readonly tracer?: OpenTelemetryTracer | undefined;
}

/** `SpanStatusCode.ERROR`. */
const statusError = 2;

/**
 * Keeps metrics of locks and caches in a meter: pass what it returns as `observe`. One observer may serve any number of
 * them; docs/metrics.md lists the metrics.
 *
 * Promised: whatever a meter or a tracer throws changes nothing; the attributes of a metric have a bounded number of values; no
 * name of a lock is an attribute unless `label` makes it one. Not promised: the hold time of a lease whose process is killed,
 * or anything of a meter that was taken before the SDK was set up, which stays silent.
 *
 * @throws LockError "config" when the meter or the tracer is none, or an option is out of bounds
 *
 * @example
 * ```ts
 * import { metrics, trace } from "@opentelemetry/api";
 * import { createLock } from "leasehold";
 * import { memoryClient } from "leasehold/memory";
 * import { openTelemetryObserver } from "leasehold/opentelemetry";
 *
 * const observe = openTelemetryObserver(metrics.getMeter("leasehold"), { tracer: trace.getTracer("leasehold") });
 * const lock = createLock(memoryClient(), { observe });
 * await lock.withLock("invoice:42", async () => 42);
 * ```
 */
export function openTelemetryObserver(
  meter: OpenTelemetryMeter,
  options?: OpenTelemetryObserverOptions,
  clock: Clock = systemClock,
): Observer {
  const { tracer } = options ?? {};
  for (const method of ["createCounter", "createHistogram"]) check("the meter", meter, method);
  if (tracer !== undefined) check("the tracer", tracer, "startSpan");
  return measuringObserver(
    {
      instrument({ name, type, unit, help: description, buckets }) {
        if (type === "counter") {
          const counter = meter.createCounter(name, { description, unit });
          return (value, labels) => counter.add(value, attributesOf(labels));
        }
        const advice = { explicitBucketBoundaries: [...buckets] };
        const histogram = meter.createHistogram(name, { description, unit, advice });
        return (value, labels) => histogram.record(value, attributesOf(labels));
      },
      stretch: (stretch) => tracer && addSpan(tracer, stretch),
    },
    options ?? {},
    clock,
  );
}

// The parent is the span that is active where the event happens: the caller's, where a context manager is registered.
function addSpan(tracer: OpenTelemetryTracer, { what, fromMs, toMs, failed, result, name, fence }: TimedStretch): void {
  const attributes = attributesOf({ result, name, fence });
  const span = tracer.startSpan(`leasehold.${what}`, { startTime: fromMs, attributes });
  if (failed) span.setStatus({ code: statusError, message: result });
  span.end(toMs);
}

function attributesOf(labels: Readonly<Record<string, string | number | undefined>>): OpenTelemetryAttributes {
  const entries = Object.entries(labels).flatMap(([label, value]) =>
    value === undefined ? [] : [[`leasehold.${label}`, value] as const],
  );
  return Object.fromEntries(entries);
}

function check(what: string, value: unknown, method: string): void {
  if (typeof field(value, method) === "function") return;
  throw configError(what, `one of OpenTelemetry, with ${method}`, typeof value);
}
