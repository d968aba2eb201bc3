/**
 * An observer over a registry of prom-client.
 *
 * @module
 */
import { type Clock, systemClock } from "../src/clock.ts";
import { field } from "../src/command.ts";
import { configError } from "../src/errors.ts";
import type { Observer } from "../src/events.ts";
import type { Metric } from "./measurements/catalogue.ts";
import type { LabelOptions } from "./measurements/labels.ts";
import { type Instrument, measuringObserver } from "./measurements/observer.ts";

/** What is asked of a registry. */
export interface PrometheusRegistry {
  getSingleMetric(name: string): unknown;
}

/** What a metric is made of. */
export interface PrometheusMetric<Registry> {
  readonly name: string;
  readonly help: string;
  readonly labelNames: string[];
  readonly registers: Registry[];
}

/** What is asked of a counter. */
export interface PrometheusCounter {
  inc(labels: Record<string, string>, value: number): void;
}

/** What is asked of a histogram. */
export interface PrometheusHistogram {
  observe(labels: Record<string, string>, value: number): void;
}

/** What is asked of prom-client: a shape, so that no version of it is installed but yours. */
export interface PrometheusClient<Registry extends PrometheusRegistry> {
  readonly Counter: new (metric: PrometheusMetric<Registry>) => PrometheusCounter;
  readonly Histogram: new (metric: PrometheusMetric<Registry> & { readonly buckets: number[] }) => PrometheusHistogram;
  readonly register: PrometheusRegistry;
}

/** Options of {@link prometheusObserver}. */
export interface PrometheusObserverOptions<Registry extends PrometheusRegistry> extends LabelOptions {
  /** @default {the client's own} */
  readonly registry?: Registry | undefined;
}

/**
 * Keeps metrics of locks and caches in a registry: pass what it returns as `observe`. One observer may serve any number of
 * them, and several may share a registry, where they keep the same metrics; docs/metrics.md lists these.
 *
 * A registry makes no metrics by itself, so the module prom-client is handed over, and the registry where it is not the
 * module's own.
 *
 * Promised: whatever prom-client throws later changes nothing; labels have a bounded number of values; no name of a lock is
 * a label unless `label` makes it one. Not promised: the hold time of a lease whose process is killed.
 *
 * @throws LockError "config" when the client or the registry is none, the registry has a metric of the same name and
 * another type, or an option is out of bounds
 *
 * @example
 * ```ts
 * import { createLock } from "leasehold";
 * import { memoryClient } from "leasehold/memory";
 * import { prometheusObserver } from "leasehold/prometheus";
 * import * as promClient from "prom-client";
 *
 * const registry = new promClient.Registry();
 * const lock = createLock(memoryClient(), { observe: prometheusObserver(promClient, { registry }) });
 * await lock.withLock("invoice:42", async () => 42);
 * console.log((await registry.metrics()).includes('leasehold_acquisitions_total{result="acquired"} 1')); // true
 * ```
 */
export function prometheusObserver<Registry extends PrometheusRegistry>(
  client: PrometheusClient<Registry>,
  options?: PrometheusObserverOptions<Registry>,
  clock: Clock = systemClock,
): Observer {
  const { registry = field(client, "register") as Registry } = options ?? {};
  for (const name of ["Counter", "Histogram"]) {
    if (typeof field(client, name) === "function") continue;
    throw configError("the client", `the module prom-client, with ${name}; a registry is an option`, typeof client);
  }
  if (typeof field(registry, "getSingleMetric") !== "function") {
    throw configError("registry", "one of prom-client, with getSingleMetric", typeof registry);
  }

  const instrument = ({ name, type, unit, help, labels, buckets }: Metric): Instrument => {
    const metric = { name: nameOf(name, unit, type), help, labelNames: ["name", ...labels], registers: [registry] };
    if (type === "counter") {
      const counter = keptIn<PrometheusCounter>(registry, metric.name, "inc") ?? new client.Counter(metric);
      return (value, told) => counter.inc({ ...told }, value);
    }
    const histogram =
      keptIn<PrometheusHistogram>(registry, metric.name, "observe") ??
      new client.Histogram({ ...metric, buckets: [...buckets] });
    return (value, told) => histogram.observe({ ...told }, value);
  };
  return measuringObserver({ instrument }, options ?? {}, clock);
}

/** By the conventions of Prometheus: the unit at the end, and what only grows is a total. */
function nameOf(name: string, unit: string, type: Metric["type"]): string {
  return `${name.replaceAll(".", "_")}${unit === "s" ? "_seconds" : ""}${type === "counter" ? "_total" : ""}`;
}

/** What another observer, or this module before it was loaded anew, has registered: a registry has each name once. */
function keptIn<Kept>(registry: PrometheusRegistry, name: string, method: keyof Kept & string): Kept | undefined {
  const kept = registry.getSingleMetric(name);
  if (kept === undefined || typeof field(kept, method) === "function") return kept as Kept | undefined;
  throw configError("registry", `one in which ${name} has ${method}`, "another metric");
}
