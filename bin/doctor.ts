/**
 * `leasehold doctor`.
 *
 * @module
 */
import { type Diagnosis, doctor, type Finding, type NodeHealth, type Severity } from "leasehold";
import { numberOf, refuseNames, type Values } from "./arguments.ts";
import { exit } from "./exit.ts";
import { openNodes } from "./nodes.ts";
import { duration, type Output, type Style, visible } from "./output.ts";

const colours: Record<Severity, Style> = { error: "red", warning: "yellow", unknown: "dim", ok: "green" };

/** Examines, shows, and says how to end. */
export async function runDoctor(values: Values, positionals: readonly string[], output: Output): Promise<number> {
  refuseNames("doctor", positionals);
  const options = {
    prefix: values.prefix,
    leaseMs: numberOf("lease", values.lease),
    quorum: numberOf("quorum", values.quorum),
    driftFactor: numberOf("drift", values.drift),
  };
  const nodes = openNodes(values);
  const stop = output.progress(() => `Examining ${nodes.count}`);
  try {
    await nodes.greet();
    const diagnosis = await doctor(nodes.clients, options);
    stop();
    if (output.json) output.document(diagnosis);
    else show(diagnosis, values.all === true, output);
    return codeOf(diagnosis);
  } finally {
    stop();
    nodes.close();
  }
}

function codeOf({ findings, reachable }: Diagnosis): number {
  if (!reachable) return exit.unreachable;
  return findings.some(({ severity }) => severity === "error" || severity === "warning") ? exit.finding : exit.ok;
}

function show({ findings, nodes }: Diagnosis, all: boolean, { line, paint, table }: Output): void {
  table([["NODE", "ROLE", "VERSION", "ROUND TRIP", "CLOCK"], ...nodes.map(rowOf)]);
  line();
  for (const { severity, code, on, finding, meaning, remedy } of grouped(findings)) {
    if (severity === "ok" && !all) continue;
    const where = on.length > 0 ? ` on ${on.join(", ")}` : "";
    line(`${paint(colours[severity], severity)} ${paint("bold", code)}${visible(where)}`);
    // A server's own words may bring their full stop.
    for (const sentence of [finding, meaning, remedy]) if (sentence) line(`  ${visible(sentence.replace(/\.$/, ""))}.`);
  }
  const count = (wanted: Severity): number => findings.filter(({ severity }) => severity === wanted).length;
  const counted = (wanted: Severity): string => `${count(wanted)} ${wanted}${count(wanted) === 1 ? "" : "s"}`;
  const counts = `${counted("error")}, ${counted("warning")}, ${count("unknown")} unknown, ${count("ok")} in order`;
  line(all || count("ok") === 0 ? counts : `${counts} (--all lists them)`);
}

/** The same finding about several nodes is one. */
function grouped(findings: readonly Finding[]): (Finding & { readonly on: string[] })[] {
  const groups = new Map<string, Finding & { readonly on: string[] }>();
  for (const { node, ...rest } of findings) {
    const key = JSON.stringify(rest);
    const group = groups.get(key) ?? { ...rest, on: [] };
    if (node !== undefined) group.on.push(node);
    groups.set(key, group);
  }
  return [...groups.values()];
}

function rowOf({ label, answered, role, version, roundTripMs, clockAheadMs, clockErrorMs }: NodeHealth): string[] {
  if (!answered) return [visible(label), "no answer", "", "", ""];
  const sign = (clockAheadMs ?? 0) < 0 ? "" : "+";
  const clock = clockAheadMs === undefined ? "?" : `${sign}${duration(clockAheadMs)} ± ${duration(clockErrorMs)}`;
  return [label, role ?? "?", version ?? "?", duration(roundTripMs), clock].map(visible);
}
