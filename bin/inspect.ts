/**
 * `leasehold inspect NAME`.
 *
 * @module
 */
import { inspectLock, type LockState, type LockVerdict, type NodeState } from "leasehold";
import { numberOf, type Values } from "./arguments.ts";
import { exit, UsageError } from "./exit.ts";
import { openNodes } from "./nodes.ts";
import { duration, type Output, type Style, visible } from "./output.ts";

const codes: Record<LockVerdict, number> = {
  free: exit.ok,
  held: exit.ok,
  minority: exit.finding,
  split: exit.finding,
  unreachable: exit.unreachable,
};

const colours: Record<LockVerdict, Style> = {
  free: "green",
  held: "green",
  minority: "yellow",
  split: "red",
  unreachable: "red",
};

/** Looks, shows, and says how to end. */
export async function runInspect(values: Values, positionals: readonly string[], output: Output): Promise<number> {
  const [name] = positionals;
  if (name === undefined || positionals.length > 1)
    throw new UsageError(`Cannot inspect ${positionals.length} locks: give one NAME`);
  const quorum = numberOf("quorum", values.quorum);
  const nodes = openNodes(values);
  const stop = output.progress(() => `Asking ${nodes.count} about ${name}`);
  try {
    await nodes.greet();
    const state = await inspectLock(nodes.clients, name, { prefix: values.prefix, quorum });
    stop();
    if (output.json) output.document({ name, ...state });
    else show(state, output);
    return codes[state.verdict];
  } finally {
    stop();
    nodes.close();
  }
}

function show({ verdict, summary, fence, nodes }: LockState, { line, paint, table }: Output): void {
  const [first = "", ...sentences] = summary.split(/(?<=\.) /);
  line(paint(colours[verdict], visible(first)));
  for (const sentence of sentences) line(visible(sentence));
  line(`Latest fence: ${fence || "none"}`);
  line();
  table([["NODE", "SAYS", "TOKEN", "LEFT", "FENCE", "ROUND TRIP"], ...nodes.map(rowOf)]);
}

function rowOf(node: NodeState): string[] {
  const { label, outcome, token = "", remainingMs, fence, roundTripMs, reason } = node;
  if (reason !== undefined)
    return [label, `no answer: ${reason || outcome}`, "", "", "", duration(roundTripMs)].map(visible);
  const says = outcome === "foreign" ? "a key of another type" : outcome;
  const left = outcome === "free" ? "" : remainingMs === undefined ? "no end" : duration(remainingMs);
  return [label, says, token, left, fence ? String(fence) : "", duration(roundTripMs)].map(visible);
}
