/**
 * What the clocks of the nodes, and of this machine, say of each other. Pure functions.
 *
 * @module
 */
import type { ClockSample, Facts } from "./facts.ts";
import { about, type Finding } from "./findings.ts";

/** How far a Redlock's fence may be ahead of a node's clock. */
const dayMs = 86_400_000;

interface Reading extends ClockSample {
  readonly node: string | undefined;
}

/**
 * Compares each clock with the one that is closest to all of them, so that one wrong clock does not accuse the others.
 * With one node that is this machine's.
 */
export function clockFindings(facts: readonly Facts[], allowedMs: number): Finding[] {
  const own: Reading = { node: undefined, offsetMs: 0, errorMs: 0 };
  const told = facts.flatMap(({ label, clock }): Reading[] => (clock ? [{ node: label, ...clock }] : []));
  const all = [own, ...told];
  const distance = (from: Reading): number => all.reduce((sum, to) => sum + Math.abs(to.offsetMs - from.offsetMs), 0);
  const reference = all.reduce((best, next) => (distance(next) < distance(best) ? next : best));
  const findings = all
    .filter((reading) => reading !== own || told.length > 0)
    .map((reading) => clockFinding(reading, reference, allowedMs, told.length > 1 ? "the others'" : "this machine's"));
  const silent = facts.filter(({ silence, clock }) => silence === undefined && !clock);
  return [
    ...findings,
    ...silent.map(({ label, clockReason = "an odd reply" }) =>
      about("clock", label)("unknown", `It does not tell the time: ${clockReason}`, unknownMeaning, "Allow TIME"),
    ),
  ];
}

const unknownMeaning = "Whether leases end here when they should cannot be told";

function clockFinding(reading: Reading, reference: Reading, allowedMs: number, others: string): Finding {
  const { node } = reading;
  const say = about("clock", node);
  const aheadMs = reading.offsetMs - reference.offsetMs;
  const apartMs = Math.abs(aheadMs);
  const errorMs = reading === reference ? 0 : reading.errorMs + reference.errorMs;
  const side = aheadMs < 0 ? "behind" : "ahead of";
  const whose = node === undefined ? "The clock of this machine" : "Its clock";
  const width = `give or take ${shown(errorMs)}`;
  if (reading === reference || apartMs + errorMs <= allowedMs) {
    const where =
      reading === reference ? "is in the middle of all" : `is ${shown(apartMs)} ${side} ${others}, ${width}`;
    return say("ok", `${whose} ${where}`, `A lease allows for ${allowedMs} ms`);
  }
  if (apartMs - errorMs <= allowedMs) {
    const finding = `${whose} is at most ${shown(apartMs + errorMs)} from ${others}: the way is too long to say more`;
    return say("unknown", finding, unknownMeaning, "Ask from a machine that is closer");
  }
  const finding = `${whose} is ${shown(apartMs)} ${side} ${others}, ${width}: a lease allows for ${allowedMs} ms`;
  if (node === undefined) {
    const meaning = "Leases are not counted by it, but the fences of a Redlock begin with it, and so do your logs";
    return say(apartMs > dayMs ? "error" : "warning", finding, meaning, "Let a time service set it right");
  }
  const meaning =
    aheadMs < 0
      ? "When it is set forward in one step, leases on this node end early by as much: two may then hold one lock"
      : "When it is set back in one step, leases on this node end late by as much: a lock may be stuck for so long";
  const far = apartMs > dayMs ? ". More than a day apart, a Redlock's fences are refused" : "";
  const remedy =
    "Have a time service (chrony, systemd-timesyncd) slew it, never step it. Keep the node out of locks until it is right";
  return say("error", finding, meaning + far, remedy);
}

/** A duration as a person reads it. */
function shown(ms: number): string {
  if (ms < 10) return `${ms.toFixed(1)} ms`;
  return ms < 10_000 ? `${Math.round(ms)} ms` : `${(ms / 1_000).toFixed(1)} s`;
}
