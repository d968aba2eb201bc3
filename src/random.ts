/**
 * Tokens and jitter: the only file that draws random numbers.
 *
 * @module
 */
import { LockError } from "./errors.ts";

/** What a simulator replaces to own chance. */
export interface Random {
  /** Fills the array with random bytes and returns it. */
  fill(bytes: Uint8Array<ArrayBuffer>): Uint8Array;
}

/** The runtime's cryptographic source. There is no weaker fallback: a guessable token could be released by anyone. */
export const systemRandom: Random = {
  fill(bytes) {
    if (typeof globalThis.crypto?.getRandomValues !== "function") {
      throw new LockError("config", "Cannot make a token as this runtime has no crypto.getRandomValues");
    }
    return globalThis.crypto.getRandomValues(bytes);
  },
};

/** A new identity: a letter, so that no client's value parser takes it for a number, and 128 random bits in hex. */
export function newToken(random: Random): string {
  let token = "t";
  for (const byte of random.fill(new Uint8Array(16))) token += byte.toString(16).padStart(2, "0");
  return token;
}

/** A number from `low` up to, not including, `high`. */
export function uniform(random: Random, low: number, high: number): number {
  const [a = 0, b = 0, c = 0, d = 0] = random.fill(new Uint8Array(4));
  return low + (high - low) * ((a + b * 2 ** 8 + c * 2 ** 16 + d * 2 ** 24) / 2 ** 32);
}
