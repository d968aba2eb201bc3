/**
 * What the twins of the scripts have in common: their shape, and Lua's numbers.
 *
 * @module
 */
import type { Reply } from "../../src/command.ts";
import type { Keyspace } from "./keyspace.ts";

/** A script in TypeScript: takes its KEYS, then its ARGV, and replies as it does. */
export type Twin = (redis: Keyspace, ...keysAndArgs: string[]) => Reply;

/** `tonumber(text or '') or 0`, without a fraction, which a reply would lose. */
export function tonumber(text: string | null | undefined): number {
  return Math.trunc(Number(text ?? "")) || 0;
}
