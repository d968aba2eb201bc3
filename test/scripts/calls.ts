/**
 * Reads the calls of Redis commands in a Lua script. Knows as much of Lua as the scripts of this package use.
 *
 * @module
 */

export interface RedisCall {
  readonly command: string;
  /** The texts of the arguments after the command. */
  readonly args: readonly string[];
}

/** Every `redis.call` and `redis.pcall` in the source, in order. */
export function redisCalls(source: string): RedisCall[] {
  return [...source.matchAll(/\bredis\.p?call\(/g)].map(({ 0: text, index }) => {
    const [command = "", ...args] = argumentsFrom(source, index + text.length);
    return { command: command.replaceAll("'", ""), args };
  });
}

/** Splits at the commas of this level, up to the bracket that closes it. */
function argumentsFrom(source: string, start: number): string[] {
  const args: string[] = [];
  let depth = 0;
  let quoted = false;
  let from = start;
  for (let at = start; at < source.length; at += 1) {
    const char = source[at] ?? "";
    if (char === "'") quoted = !quoted;
    if (quoted) continue;
    if ("([{".includes(char)) depth += 1;
    if (depth === 0 && (char === "," || char === ")")) {
      args.push(source.slice(from, at).trim());
      from = at + 1;
      if (char === ")") return args;
    }
    if (")]}".includes(char)) depth -= 1;
  }
  throw new Error(`A call is not closed: ${source.slice(start, start + 60)}`);
}
