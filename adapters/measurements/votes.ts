/**
 * What each Redis answered, and how long it took.
 *
 * @module
 */
import type { LeaseholdEvent } from "../../src/events.ts";
import { trips, votes } from "./catalogue.ts";
import type { Point } from "./measure.ts";

/** What each Redis answered; nothing where another event tells of the same answers. */
export function votesOf(event: LeaseholdEvent): Point[] {
  const toldBefore = event.type === "acquire-failed" && /^(contended|timeout)$/.test(event.code);
  const toldNext = event.type === "commit-refused";
  const toldByAnother = /^(hit|stale)$/.test(event.type) && !event.requests; // it shared the request of another read
  if (toldBefore || toldNext || toldByAnother) return [];
  return event.nodes.flatMap(({ label: node, outcome, ms }): Point[] => {
    const vote: Point = [votes, 1, { node, result: outcome }];
    return outcome === "unknown" ? [vote] : [vote, [trips, ms / 1_000, { node }]];
  });
}
