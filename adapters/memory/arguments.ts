/**
 * Arguments of commands: how Redis reads integers, and what it says where it cannot use them.
 *
 * @module
 */
import { ReplyError } from "../../src/command.ts";

/** A 64-bit integer in its one decimal form: no plus, no spaces, no leading zeros. @throws ReplyError */
export function integer(text: string): bigint {
  const value = /^(0|-?[1-9]\d{0,18})$/.test(text) ? BigInt(text) : undefined;
  if (value !== undefined && fits(value)) return value;
  throw new ReplyError("ERR value is not an integer or out of range");
}

/** The sum of two 64-bit integers. @throws ReplyError */
export function sum(a: bigint, b: bigint): bigint {
  if (fits(a + b)) return a + b;
  throw new ReplyError("ERR increment or decrement would overflow");
}

/** A life in ms, given in units of so many ms; past 2^53 it is taken for an overflow. @throws ReplyError */
export function life(text: string, unitMs: number, command: string, least: number = -Infinity): number {
  const ms = Number(integer(text)) * unitMs;
  if (ms >= least && Number.isSafeInteger(ms)) return ms;
  throw new ReplyError(`ERR invalid expire time in '${command}' command`);
}

export function unknownCommand(name: string, args: readonly string[]): ReplyError {
  let begin = "";
  for (const arg of args) if (begin.length < 128) begin += `'${arg.slice(0, 128 - begin.length)}' `;
  return new ReplyError(`ERR unknown command '${name.slice(0, 128)}', with args beginning with: ${begin}`);
}

export function wrongNumber(name: string): ReplyError {
  return new ReplyError(`ERR wrong number of arguments for '${name.toLowerCase()}' command`);
}

export function wrongType(): ReplyError {
  return new ReplyError("WRONGTYPE Operation against a key holding the wrong kind of value");
}

export function syntaxError(): ReplyError {
  return new ReplyError("ERR syntax error");
}

function fits(value: bigint): boolean {
  return BigInt.asIntN(64, value) === value;
}
