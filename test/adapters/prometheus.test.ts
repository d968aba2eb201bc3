import * as promClient from "prom-client";
import { describe, expect, test } from "vitest";
import { type PrometheusClient, type PrometheusRegistry, prometheusObserver } from "../../adapters/prometheus.ts";
import { type Keeping, observerContract } from "../contract/observer.ts";
import { oneRedis } from "../support/one-redis.ts";
import { lockError } from "../support/rejection.ts";

/** The lines of a scrape, as a number for each series. */
async function seriesOf(registry: promClient.Registry): Promise<Record<string, number>> {
  const lines = (await registry.metrics()).split("\n").filter((line) => line && !line.startsWith("#"));
  return Object.fromEntries(
    lines.map((line) => /^(.+) (\S+)$/.exec(line)?.slice(1) ?? []).map(([k, v]) => [k, Number(v)]),
  );
}

const keeping: Keeping = (clock, options) => {
  const registry = new promClient.Registry();
  const observe = prometheusObserver(promClient, { registry, ...options }, clock);
  return { observe, series: () => seriesOf(registry) };
};

describe("the observer over prom-client", () => {
  observerContract(keeping);

  test("keeps to the module's own registry where none is given, and describes each metric", async () => {
    promClient.register.clear();
    prometheusObserver(promClient);
    const text = await promClient.register.metrics();
    promClient.register.clear();
    expect(text).toContain("# TYPE leasehold_acquisitions_total counter");
    expect(text).toContain("# TYPE leasehold_hold_duration_seconds histogram");
    for (const [, name, help] of text.matchAll(/^# HELP (\S+) (.*)$/gm)) {
      expect([name, help]).toEqual([
        expect.stringMatching(/^leasehold_[a-z_]+(_total|_seconds|_ratio)$/),
        expect.any(String),
      ]);
      expect(help?.length).toBeGreaterThan(10);
    }
  });

  test("shares its metrics with another over the same registry, with or without names", async () => {
    const registry = new promClient.Registry();
    const plain = oneRedis({ observe: prometheusObserver(promClient, { registry }) });
    const named = oneRedis({ observe: prometheusObserver(promClient, { registry, label: (name) => name }) });
    await plain.lock.withLock("a", () => {});
    await named.lock.withLock("b", () => {});
    const series = await seriesOf(registry);
    expect(series['leasehold_acquisitions_total{result="acquired"}']).toBe(1);
    expect(series['leasehold_acquisitions_total{name="b",result="acquired"}']).toBe(1);
  });

  test("keeps counting in a registry for OpenMetrics", async () => {
    const registry = new promClient.Registry<promClient.OpenMetricsContentType>();
    registry.setContentType(promClient.Registry.OPENMETRICS_CONTENT_TYPE);
    const { lock } = oneRedis({ observe: prometheusObserver(promClient, { registry }) });
    for (let scrape = 1; scrape <= 2; scrape += 1) {
      await lock.withLock("a", () => {});
      expect(await registry.metrics()).toContain(`leasehold_acquisitions_total{result="acquired"} ${scrape}\n`);
    }
  });

  test("that cannot count changes nothing", async () => {
    const registry = new promClient.Registry();
    const observe = prometheusObserver(promClient, { registry });
    for (const metric of registry.getMetricsAsArray()) {
      Object.assign(metric, { inc: fail, observe: fail });
    }
    const { lock, run } = oneRedis({ observe });
    expect(await lock.withLock("job", () => "done")).toBe("done");
    expect(await run("EXISTS", "lock:{job}")).toBe(0);
  });

  test("is refused what is not prom-client, or has a metric of the name that is another", async () => {
    const registry = new promClient.Registry();
    const wrong = (client: unknown, options = {}): Promise<unknown> =>
      Promise.resolve().then(() => prometheusObserver(client as PrometheusClient<PrometheusRegistry>, options));
    expect((await lockError(wrong(registry), "config")).message).toBe(
      "Cannot use the client as it must be the module prom-client, with Counter; a registry is an option: current value is object",
    );
    await lockError(wrong(undefined), "config");
    expect((await lockError(wrong(promClient, { registry: {} }), "config")).message).toContain("registry");
    await lockError(wrong(promClient, { registry, label: "invoice" }), "config");
    await lockError(wrong(promClient, { registry, maxLabels: 0 }), "config");
    expect(await wrong(promClient, null as never)).toBeTypeOf("function");
    new promClient.Histogram({ name: "leasehold_acquisitions_total", help: "another", registers: [registry] });
    expect((await lockError(wrong(promClient, { registry }), "config")).message).toContain(
      "leasehold_acquisitions_total",
    );
  });
});

function fail(): never {
  throw new Error("no");
}
