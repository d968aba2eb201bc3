import type { Reply } from "../command.ts";

/**
 * The reply as exactly `count` integers, or undefined for any other shape. Some clients give a script's integers as
 * decimal strings, and its 0 and false as null. From 2^53 on they have been rounded, which is for the reader to refuse.
 */
export function integers(reply: Reply, count: number): readonly number[] | undefined {
  if (!Array.isArray(reply) || reply.length !== count) return undefined;
  const numbers = reply.map((item: Reply) =>
    item === null || (typeof item === "string" && /^-?\d+$/.test(item)) ? Number(item) : item,
  );
  return numbers.every((item): item is number => Number.isInteger(item)) ? numbers : undefined;
}

/** What the first of the integers stands for (1 is the last of `types`, 0 the one before it, and so on), and the others. */
export function verdict<Type>(
  reply: Reply,
  count: number,
  types: readonly Type[],
): readonly [type?: Type | undefined, ...numbers: number[]] {
  const [code = 2, ...numbers] = integers(reply, count) ?? [];
  return [types[code + types.length - 2], ...numbers];
}
