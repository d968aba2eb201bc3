/**
 * Every decision of a run, from the seed and from what is decided: never from the order of decisions, so that taking one
 * fault away leaves all others as they were.
 */
import type { Random } from "../../src/random.ts";

export class Fate {
  readonly seed: number;
  /** What went wrong in this run, in the order in which it did. */
  readonly faults: Set<string> = new Set<string>();
  readonly #only: ReadonlySet<string> | undefined;

  /** With `only`, just these faults happen. */
  constructor(seed: number, only?: readonly string[]) {
    this.seed = seed;
    this.#only = only && new Set(only);
  }

  /** From 0 up to, not including, 1. */
  chance(what: string): number {
    return hashOf(what, this.seed) / 2 ** 32;
  }

  uniform(what: string, low: number, high: number): number {
    return low + (high - low) * this.chance(what);
  }

  /** Lognormal about a median, as round trips are. */
  lognormal(what: string, median: number, sigma: number): number {
    const radius = Math.sqrt(-2 * Math.log(1 - this.chance(`${what} radius`)));
    return median * Math.exp(sigma * radius * Math.cos(2 * Math.PI * this.chance(`${what} angle`)));
  }

  pick<T>(what: string, weights: readonly (readonly [T, number])[]): T {
    let left = this.chance(what) * weights.reduce((sum, [, weight]) => sum + weight, 0);
    for (const [choice, weight] of weights) {
      left -= weight;
      if (left < 0) return choice;
    }
    throw new Error(`Nothing to choose from: ${what}`);
  }

  /** Whether this goes wrong. What does is on record. */
  fault(what: string, probability: number): boolean {
    const happens = this.#only?.has(what) ?? this.chance(what) < probability;
    if (happens) this.faults.add(what);
    return happens;
  }

  /** A source of random bytes of its own for each name. */
  random(name: () => string): Random {
    const drawnFor = new Map<string, number>();
    return {
      fill: (bytes) => {
        const now = name();
        const drawn = drawnFor.get(now) ?? 0;
        drawnFor.set(now, drawn + 1);
        for (let i = 0; i < bytes.length; i += 1) bytes[i] = hashOf(`${now} ${drawn} ${i}`, this.seed);
        return bytes;
      },
    };
  }
}

// FNV-1a, then murmur3's finaliser: 32 bits.
function hashOf(text: string, seed: number): number {
  let h = Math.imul(seed ^ 0x9e3779b9, 0x85ebca6b) ^ 0x811c9dc5;
  for (let i = 0; i < text.length; i += 1) h = Math.imul(h ^ text.charCodeAt(i), 0x01000193);
  h = Math.imul(h ^ (h >>> 16), 0x85ebca6b);
  h = Math.imul(h ^ (h >>> 13), 0xc2b2ae35);
  return (h ^ (h >>> 16)) >>> 0;
}
