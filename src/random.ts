/**
 * Tokens and jitter: the only file that draws random numbers.
 *
 * @module
 */
import { configError } from "./errors.ts";

/** What a simulator replaces to own chance. */
export interface Random {
  /** Fills the array with random bytes and returns it. */
  fill(bytes: Uint8Array): Uint8Array;
}

/** The runtime's cryptographic source. There is no weaker fallback: a guessable token could be released by anyone. */
export const systemRandom: Random = {
  fill(bytes) {
    const { crypto } = globalThis as { crypto?: Partial<Crypto> };
    if (!crypto?.getRandomValues) throw configError("crypto", "one with getRandomValues", typeof crypto);
    return crypto.getRandomValues(bytes as Uint8Array<ArrayBuffer>); // never of shared memory here
  },
};

/** A new identity: a letter, so that no client's value parser takes it for a number, and 128 random bits in hex. */
export function newToken(random: Random): string {
  return `t${hex(random.fill(new Uint8Array(16)))}`;
}

/** A number from 0 up to, not including, 1. */
export function chance(random: Random): number {
  return Number(`0x${hex(random.fill(new Uint8Array(4)))}`) / 2 ** 32;
}

/** Two digits a byte: with 256 added it has three, of which these are the last. */
export function hex(bytes: Uint8Array): string {
  return bytes.reduce((text, byte) => text + (byte + 256).toString(16).slice(1), "");
}
