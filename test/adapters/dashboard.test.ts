/** Holds the dashboard, the alert rules and the list of metrics to what an observer keeps. */
import * as promClient from "prom-client";
import { describe, expect, test } from "vitest";
import { catalogue, type Metric } from "../../adapters/measurements/catalogue.ts";
import { prometheusObserver } from "../../adapters/prometheus.ts";
import { textOf } from "../support/text-of.ts";

interface Dashboard {
  readonly panels: readonly {
    readonly title: string;
    readonly type: string;
    readonly gridPos: { readonly x: number; readonly y: number; readonly w: number; readonly h: number };
    readonly targets?: readonly { readonly expr: string }[];
  }[];
}

const page = textOf("docs/metrics.md");
const { panels } = JSON.parse(textOf("docs/grafana-dashboard.json")) as Dashboard;
const rules = (/^```yaml\n(.*?)^```$/ms.exec(page)?.[1] ?? "").split("- alert: ").slice(1);

const expressions = [
  ...panels.flatMap(({ title, targets = [] }) => targets.map(({ expr }) => [title, expr] as const)),
  ...rules.map((rule) => [rule.split("\n")[0] ?? "", /expr: (?:\|\n)?(.*?)\n {8}\w+:/s.exec(rule)?.[1] ?? ""] as const),
];

/** What the real registry has, in the order of the catalogue. */
const names = registered();
const metrics = new Map(names.map((name, index) => [name, catalogue[index]] as const));

function registered(): string[] {
  const registry = new promClient.Registry();
  prometheusObserver(promClient, { registry });
  return registry.getMetricsAsArray().map(({ name }) => name);
}

/** The metrics that an expression reads, each with what stands in its braces. */
function readsOf(
  expression: string,
): { readonly metric: Metric | undefined; readonly name: string; readonly braces: string }[] {
  return [...expression.matchAll(/\b(leasehold_\w+)(?:\{([^}]*)\})?/g)].map(([, name = "", braces = ""]) => {
    const whole = metrics.get(name);
    const part = metrics.get(name.replace(/_(bucket|sum|count)$/, ""));
    return {
      metric: whole?.type === "counter" ? whole : part?.type === "histogram" && !whole ? part : undefined,
      name,
      braces,
    };
  });
}

describe.each(expressions)("%s", (_, expression) => {
  test("reads metrics that there are, by labels and values that they have", () => {
    const reads = readsOf(expression);
    expect(reads.length).toBeGreaterThan(0);
    for (const { metric, name, braces } of reads) {
      expect(metric, name).toBeDefined();
      const labels: readonly string[] = ["name", ...(metric?.labels ?? []), ...(metric?.buckets.length ? ["le"] : [])];
      for (const [, label = "", value = ""] of braces.matchAll(/(\w+)\s*[=!]~?"([^"]*)"/g)) {
        expect(labels, `${name} has ${label}`).toContain(label);
        if (label === "le") expect(value, "as Prometheus 3 writes 1 as 1.0").not.toMatch(/^\d+$/);
        if (label === "le") for (const bound of value.split("|")) expect(metric?.buckets).toContain(Number(bound));
        if (label !== "result" || !metric?.results.length) continue;
        for (const result of value.split("|")) expect(metric.results).toContain(result);
      }
    }
    for (const [, by = ""] of expression.matchAll(/\bby \(([^)]+)\)/g)) {
      const labels: readonly string[] = reads.flatMap(({ metric }) => [...(metric?.labels ?? []), "le"]);
      for (const label of by.split(/, ?/)) expect(labels).toContain(label);
    }
  });

  test("has a closing bracket for each that it opens", () => {
    for (const [open = "", close = ""] of ["()", "{}", "[]"].map((pair) => [...pair])) {
      expect(expression.split(open).length).toBe(expression.split(close).length);
    }
  });
});

test("the dashboard shows every metric, and its panels do not overlap", () => {
  const shown = panels.flatMap(({ targets = [] }) => targets.flatMap(({ expr }) => readsOf(expr)));
  expect(new Set(shown.map(({ metric }) => metric))).toEqual(new Set(catalogue));
  const cells = panels.flatMap(({ gridPos: { x, y, w, h } }) =>
    Array.from({ length: w * h }, (__, index) => `${x + (index % w)},${y + Math.floor(index / w)}`),
  );
  expect(new Set(cells).size).toBe(cells.length);
});

test("there is an alert on the leading indicator, and one on what it leads to", () => {
  expect(rules.join()).toMatch(/leasehold_lease_used_ratio_bucket.*expired_mid_work/s);
});

test("the list of metrics is complete, by both names, with units, labels and results", () => {
  for (const [name, metric] of metrics) {
    if (!metric) expect.fail(name);
    const row = page.split("\n").find((line) => line.startsWith(`| \`${metric.name}\` \`${name}\``));
    expect(row, name).toBeDefined();
    const [, , unit = "", labels = ""] = (row ?? "").split("|").map((cell) => cell.trim());
    expect({ name, unit }).toEqual({ name, unit: metric.type === "counter" ? "" : metric.unit });
    expect(labels).toBe(metric.labels.map((label) => `\`${label}\``).join(", "));
    for (const result of metric.results) expect(page).toContain(`\`${result}\``);
  }
  expect(page.match(/^\| `leasehold\./gm)).toHaveLength(catalogue.length);
});
