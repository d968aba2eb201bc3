import type { Reply } from "../command.ts";

/**
 * The reply as exactly `count` safe integers, or undefined for any other shape. Some clients give a script's integers
 * as decimal strings, and its 0 and false as null.
 */
export function integers(reply: Reply, count: number): readonly number[] | undefined {
  if (!Array.isArray(reply) || reply.length !== count) return undefined;
  const numbers = reply.map((item: Reply) => {
    if (item === null) return 0;
    return typeof item === "string" && /^-?\d{1,16}$/.test(item) ? Number(item) : item;
  });
  return numbers.every((item): item is number => Number.isSafeInteger(item)) ? numbers : undefined;
}
