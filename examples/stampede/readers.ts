/**
 * Readers who ask for one product at the same time, and what each got.
 *
 * @module
 */
import { setTimeout as sleep } from "node:timers/promises";

/** What one reader got. */
export interface Reading {
  /** From asking to having the value, in ms. */
  readonly ms: number;
  /** NaN where no value came. */
  readonly version: number;
  /** Why no value came. */
  readonly failure?: string;
}

const longestMs = 20_000;

/** Asks `count` times, the URLs in turn, at once or spread over `spreadMs`, and waits for all answers. */
export function ask(urls: readonly string[], count: number, spreadMs = 0): Promise<Reading[]> {
  const one = async (_: unknown, index: number): Promise<Reading> => {
    if (spreadMs > 0) await sleep((spreadMs * index) / count);
    return askOnce(String(urls[index % urls.length]));
  };
  return Promise.all(Array.from({ length: count }, one));
}

async function askOnce(url: string): Promise<Reading> {
  const startedAt = performance.now();
  const reading = (version: number, failure?: string): Reading => {
    const ms = performance.now() - startedAt;
    return failure === undefined ? { ms, version } : { ms, version, failure };
  };
  try {
    const response = await fetch(url, { signal: AbortSignal.timeout(longestMs) });
    const text = await response.text();
    const version: unknown = response.ok ? JSON.parse(text).version : undefined;
    return typeof version === "number" ? reading(version) : reading(Number.NaN, `${response.status} ${text}`);
  } catch (error) {
    return reading(Number.NaN, String(error));
  }
}

/** Asks `count` times at once for a page that needs no cache, and returns the median time in ms. */
export async function askPage(urls: readonly string[], count: number): Promise<number> {
  const readings = Array.from({ length: count }, async (_, index): Promise<Reading> => {
    const startedAt = performance.now();
    await (await fetch(String(urls[index % urls.length]), { signal: AbortSignal.timeout(longestMs) })).text();
    return { ms: performance.now() - startedAt, version: Number.NaN };
  });
  return percentile(await Promise.all(readings), 0.5);
}

/** The time that a share of all readings do not exceed. */
export function percentile(readings: readonly Reading[], share: number): number {
  const sorted = readings.map(({ ms }) => ms).sort((a, b) => a - b);
  return sorted[Math.max(0, Math.ceil(share * sorted.length) - 1)] ?? Number.NaN;
}
