import { AsyncLocalStorage } from "node:async_hooks";
import { type Context, context, ROOT_CONTEXT, SpanStatusCode, trace } from "@opentelemetry/api";
import {
  AggregationTemporality,
  DataPointType,
  InMemoryMetricExporter,
  MeterProvider,
  type MetricData,
  PeriodicExportingMetricReader,
} from "@opentelemetry/sdk-metrics";
import { BasicTracerProvider, InMemorySpanExporter, SimpleSpanProcessor } from "@opentelemetry/sdk-trace-base";
import { afterEach, describe, expect, test } from "vitest";
import { type OpenTelemetryMeter, openTelemetryObserver } from "../../adapters/opentelemetry.ts";
import { type Keeping, observerContract } from "../contract/observer.ts";
import { oneRedis } from "../support/one-redis.ts";
import { lockError } from "../support/rejection.ts";

const providers: MeterProvider[] = [];

afterEach(async () => {
  await Promise.all(providers.splice(0).map((provider) => provider.shutdown()));
});

/** A meter of the SDK, and what it would export now. */
function realMeter(): { readonly meter: OpenTelemetryMeter; collect(): Promise<MetricData[]> } {
  const exporter = new InMemoryMetricExporter(AggregationTemporality.CUMULATIVE);
  const reader = new PeriodicExportingMetricReader({ exporter, exportIntervalMillis: 2 ** 30 });
  const provider = new MeterProvider({ readers: [reader] });
  providers.push(provider);
  return {
    meter: provider.getMeter("leasehold"),
    async collect() {
      exporter.reset();
      await provider.forceFlush();
      return exporter.getMetrics().flatMap(({ scopeMetrics }) => scopeMetrics.flatMap(({ metrics }) => metrics));
    },
  };
}

/** As a Prometheus that receives OTLP would name it, with the labels of prom-client. */
function seriesOf(metrics: readonly MetricData[]): Record<string, number> {
  const series: Record<string, number> = {};
  for (const { descriptor, dataPointType, dataPoints } of metrics) {
    const base = descriptor.name.replaceAll(".", "_") + (descriptor.unit === "s" ? "_seconds" : "");
    for (const { attributes, value } of dataPoints) {
      const labels = ["name", "node", "result"].flatMap((label) => {
        const found = attributes[`leasehold.${label}`];
        return found === undefined ? [] : [`${label}="${found}"`];
      });
      const line = (part: string, ...more: string[]): string =>
        base + part + (labels.length + more.length ? `{${[...more, ...labels].join()}}` : "");
      if (dataPointType === DataPointType.HISTOGRAM && typeof value === "object" && "buckets" in value) {
        series[line("_count")] = value.count;
        series[line("_sum")] = value.sum ?? 0;
        let below = 0;
        for (const [index, bound] of value.buckets.boundaries.entries()) {
          below += value.buckets.counts[index] ?? 0;
          series[line("_bucket", `le="${bound}"`)] = below;
        }
      } else series[line("_total")] = Number(value);
    }
  }
  return series;
}

const keeping: Keeping = (clock, options) => {
  const { meter, collect } = realMeter();
  return { observe: openTelemetryObserver(meter, options, clock), series: async () => seriesOf(await collect()) };
};

describe("the observer over OpenTelemetry", () => {
  observerContract(keeping);

  test("names, units and buckets are those of the conventions: seconds, braces, and a part of one", async () => {
    const { meter, collect } = realMeter();
    const { lock } = oneRedis({ observe: openTelemetryObserver(meter) });
    await lock.withLock("job", () => {});
    const metrics = await collect();
    const described = Object.fromEntries(metrics.map(({ descriptor: { name, unit } }) => [name, unit]));
    expect(described).toMatchObject({
      "leasehold.acquisitions": "{acquisition}",
      "leasehold.hold.duration": "s",
      "leasehold.lease.used_ratio": "1",
    });
    const used = metrics.find(({ descriptor }) => descriptor.name === "leasehold.lease.used_ratio");
    expect(used?.dataPoints[0]?.value).toMatchObject({ buckets: { boundaries: expect.arrayContaining([0.8, 1]) } });
    const attributes = new Set(
      metrics.flatMap(({ dataPoints }) => dataPoints.flatMap((at) => Object.keys(at.attributes))),
    );
    expect([...attributes].sort()).toEqual(["leasehold.node", "leasehold.result"]);
  });

  test.for<[string, () => unknown]>([
    ["throws", () => JSON.parse("{")],
    ["rejects", () => Promise.reject(new Error("no"))],
  ])("whose meter %s for one metric changes nothing, and loses nothing of the others", async ([, record]) => {
    const { meter, collect } = realMeter();
    const broken: OpenTelemetryMeter = {
      createCounter: (name, options) => meter.createCounter(name, options),
      createHistogram: (name, options) =>
        name === "leasehold.wait.duration" ? { record: record as () => void } : meter.createHistogram(name, options),
    };
    const world = oneRedis({ observe: openTelemetryObserver(broken) });
    expect(await world.lock.withLock("job", () => "done")).toBe("done");
    expect(await world.run("EXISTS", "lock:{job}")).toBe(0);
    const series = seriesOf(await collect());
    expect(series['leasehold_acquisitions_total{result="acquired"}']).toBe(1);
    expect(series['leasehold_hold_duration_seconds_count{result="released"}']).toBe(1);
  });

  test("whose meter takes its time takes it from the lease, and from no measurement", async () => {
    const { meter, collect } = realMeter();
    let slow = (): void => {};
    const sluggish: OpenTelemetryMeter = {
      createHistogram: (name, options) => meter.createHistogram(name, options),
      createCounter: (name, options) => {
        const counter = meter.createCounter(name, options);
        return {
          add(value, attributes) {
            slow();
            counter.add(value, attributes);
          },
        };
      },
    };
    let observe = openTelemetryObserver(sluggish);
    const world = oneRedis({ observe: (event) => observe(event) });
    observe = openTelemetryObserver(sluggish, {}, world.clock);
    slow = () => world.clock.freeze(200);
    const lease = await world.lock.acquire("job");
    expect(lease.remaining()).toBe(9_898 - 400); // an acquisition, and a vote
    await world.clock.advance(1_000);
    expect(await lease.release()).toBe("released");
    expect(seriesOf(await collect())['leasehold_hold_duration_seconds_sum{result="released"}']).toBe(1.4);
  });

  test("is refused what is no meter or no tracer", async () => {
    const { meter } = realMeter();
    const wrong = (given: unknown, options = {}): Promise<unknown> =>
      Promise.resolve().then(() => openTelemetryObserver(given as OpenTelemetryMeter, options));
    expect((await lockError(wrong(undefined), "config")).message).toBe(
      "Cannot use the meter as it must be one of OpenTelemetry, with createCounter: current value is undefined",
    );
    await lockError(wrong({ createCounter: () => {} }), "config");
    await lockError(wrong(meter, { tracer: meter }), "config");
    await lockError(wrong(meter, { label: "invoice" }), "config");
    await lockError(wrong(meter, { maxLabels: 1.5 }), "config");
    expect(await wrong(meter, null as never)).toBeTypeOf("function");
  });
});

describe("its spans", () => {
  /** A tracer of the SDK, and what it has exported. */
  function realTracer() {
    const exporter = new InMemorySpanExporter();
    const provider = new BasicTracerProvider({ spanProcessors: [new SimpleSpanProcessor(exporter)] });
    return { tracer: provider.getTracer("leasehold"), spans: () => exporter.getFinishedSpans() };
  }

  const msOf = ([seconds, nanoseconds]: readonly [number, number]): number => seconds * 1_000 + nanoseconds / 1e6;

  test("cover each acquisition and each hold, by the wall clock", async () => {
    const { tracer, spans } = realTracer();
    let observe = (_: unknown): void => {};
    const delay = { requestMs: 50, replyMs: 50 };
    const { clock, lock } = oneRedis({ observe: (event) => observe(event) }, { always: delay });
    observe = openTelemetryObserver(realMeter().meter, { tracer }, clock) as typeof observe;
    const began = clock.wall; // long before this process began
    const lease = await clock.until(lock.acquire("job"));
    await clock.advance(2_000);
    await clock.until(lease.release());

    const told = spans().map(({ name, startTime, endTime, attributes, status }) => ({
      name,
      from: msOf(startTime) - began,
      to: msOf(endTime) - began,
      attributes,
      status: status.code,
    }));
    const fence = { "leasehold.fence": lease.fence };
    expect(told).toEqual([
      {
        name: "leasehold.acquire",
        from: 0,
        to: 100,
        attributes: { "leasehold.result": "acquired", ...fence },
        status: SpanStatusCode.UNSET,
      },
      {
        name: "leasehold.hold",
        from: 100,
        to: 2_100,
        attributes: { "leasehold.result": "released", ...fence },
        status: SpanStatusCode.UNSET,
      },
    ]);
  });

  test("of a lease that was lost, and of a Redis that is silent, are errors; of contention they are not", async () => {
    const { tracer, spans } = realTracer();
    let observe = (_: unknown): void => {};
    const world = oneRedis(
      { waitMs: 0, observe: (event) => observe(event) },
      { acquire: [undefined, undefined, { lose: "request" }, { lose: "request" }] },
    );
    observe = openTelemetryObserver(
      realMeter().meter,
      { tracer, label: (name) => name },
      world.clock,
    ) as typeof observe;
    await world.lock.acquire("job");
    expect(await world.lock.tryAcquire("job")).toBeNull();
    await world.clock.advance(20_000);
    await lockError(world.clock.until(world.lock.acquire("job")), "unavailable");
    expect(spans().map(({ name, attributes, status }) => [name, attributes["leasehold.result"], status])).toEqual([
      ["leasehold.acquire", "acquired", { code: SpanStatusCode.UNSET }],
      ["leasehold.acquire", "contended", { code: SpanStatusCode.UNSET }],
      ["leasehold.hold", "expired_mid_work", { code: SpanStatusCode.ERROR, message: "expired_mid_work" }],
      ["leasehold.acquire", "unavailable", { code: SpanStatusCode.ERROR, message: "unavailable" }],
    ]);
    expect(spans()[0]?.attributes["leasehold.name"]).toBe("job");
  });

  test("belong to the span that is active in the caller", async () => {
    const active = new AsyncLocalStorage<Context>();
    context.setGlobalContextManager({
      active: () => active.getStore() ?? ROOT_CONTEXT,
      with: (given, work, self, ...args) => active.run(given, () => work.call(self as never, ...args)),
      bind: (_, target) => target,
      enable: () => context as never,
      disable: () => context as never,
    });
    try {
      const { tracer, spans } = realTracer();
      const { lock } = oneRedis({ observe: openTelemetryObserver(realMeter().meter, { tracer }) });
      const parent = tracer.startSpan("request");
      await context.with(trace.setSpan(ROOT_CONTEXT, parent), () => lock.withLock("job", () => {}));
      const parents = spans().map(({ parentSpanContext }) => parentSpanContext?.spanId);
      expect(parents).toEqual([parent.spanContext().spanId, parent.spanContext().spanId]);
    } finally {
      context.disable();
    }
  });

  test("that a tracer cannot start change nothing", async () => {
    const tracer = { startSpan: () => JSON.parse("{") };
    const { lock } = oneRedis({ observe: openTelemetryObserver(realMeter().meter, { tracer }) });
    expect(await lock.withLock("job", () => "done")).toBe("done");
  });
});
