/**
 * The figures of the demonstration: how they are shown, and which of them are wrong.
 *
 * @module
 */
import { percentile, type Reading } from "./readers.ts";

/** What one wave of readers came to. */
export interface Wave {
  readonly name: string;
  readonly readings: readonly Reading[];
  /** How often the origin was asked, and how often it had to be. */
  readonly rebuilds: number;
  readonly expectedRebuilds: number;
  /** How many requests Redis received, and how few and many there may be for each reader. */
  readonly requests: number;
  readonly fewestRequestsPerReader: number;
  readonly mostRequestsPerReader: number;
}

/** All that was measured. */
export interface Figures {
  /** The median time of as many requests at once for a page that needs no Redis: what this machine itself takes. */
  readonly floorMs: number;
  readonly waves: readonly Wave[];
  /** Reads begun after an invalidation was answered, and those of them that got what it had thrown away. */
  readonly readsAfterInvalidation: number;
  readonly oldValues: number;
}

const titles = ["wave", "readers", "rebuilds", "p50 ms", "p99 ms", "requests to Redis per reader"];

/** As a person reads them. */
export function table({ floorMs, waves, readsAfterInvalidation, oldValues }: Figures): string {
  const rows = waves.map(({ name, readings, rebuilds, requests }) => [
    name,
    String(readings.length),
    String(rebuilds),
    percentile(readings, 0.5).toFixed(0),
    percentile(readings, 0.99).toFixed(0),
    (requests / readings.length).toFixed(2),
  ]);
  const lines = [titles, ...rows].map((row, _, all) =>
    row.map((cell, column) => {
      const width = Math.max(...all.map((other) => other[column]?.length ?? 0));
      return column === 0 ? cell.padEnd(width) : cell.padStart(width);
    }),
  );
  return [
    ...lines.map((cells) => cells.join("  ")),
    "",
    `old values served after the invalidation: ${oldValues} of ${readsAfterInvalidation} reads`,
    `p50 of as many requests for a page without Redis: ${floorMs.toFixed(0)} ms`,
  ].join("\n");
}

/** A sentence for each figure that is wrong; none when all are right. */
export function faults({ waves, readsAfterInvalidation, oldValues }: Figures): string[] {
  const found: string[] = [];
  for (const { name, readings, rebuilds, expectedRebuilds, requests, ...bounds } of waves) {
    const { fewestRequestsPerReader: fewest, mostRequestsPerReader: most } = bounds;
    const failures = readings.flatMap(({ failure }) => failure ?? []);
    if (failures.length > 0) found.push(`${name}: ${failures.length} readers got no value, the first ${failures[0]}`);
    if (rebuilds !== expectedRebuilds) found.push(`${name}: ${rebuilds} rebuilds instead of ${expectedRebuilds}`);
    const perReader = requests / readings.length;
    if (requests > 0 && perReader >= fewest && perReader <= most) continue;
    found.push(`${name}: ${perReader.toFixed(2)} requests to Redis per reader instead of ${fewest} to ${most}`);
  }
  if (readsAfterInvalidation === 0) found.push("nobody read after the invalidation");
  if (oldValues > 0) found.push(`${oldValues} reads got a value from before the invalidation`);
  return found;
}
