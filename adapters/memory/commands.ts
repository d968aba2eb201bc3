/**
 * The plain commands of the in-process Redis, with the replies and the errors of Redis 7.
 *
 * @module
 */
import { type Command, type Reply, ReplyError, toReply } from "../../src/command.ts";
import { integer, life, sum, syntaxError, unknownCommand, wrongNumber } from "./arguments.ts";
import { evaluate } from "./evaluate.ts";
import { deleteFields, setFields } from "./hashes.ts";
import type { Keyspace } from "./keyspace.ts";

type Run = (redis: Keyspace, ...args: string[]) => Reply;

// By name: the least and the most arguments, and what it does.
const commands = new Map<string, readonly [least: number, most: number, run: Run]>([
  ["PING", [0, 1, (_, text = "PONG") => text]],
  ["ECHO", [1, 1, (_, text) => text]],
  ["TIME", [0, 0, ({ nowUs }) => [String(Math.floor(nowUs / 1e6)), String(nowUs % 1e6)]]],
  ["DBSIZE", [0, 0, (redis) => redis.size]],
  ["FLUSHALL", [0, 1, flushAll]],
  ["DEL", [1, Infinity, deleteKeys]],
  ["UNLINK", [1, Infinity, deleteKeys]],
  ["EXISTS", [1, Infinity, (redis, ...keys) => keys.filter((key) => redis.has(key)).length]],
  ["TYPE", [1, 1, (redis, key) => redis.type(key)]],
  ["PTTL", [1, 1, (redis, key) => redis.pttl(key)]],
  ["TTL", [1, 1, (redis, key) => seconds(redis.pttl(key))]],
  ["PEXPIRE", [2, 2, (redis, key, ms) => Number(redis.expire(key, life(ms, 1, "pexpire")))]],
  ["GET", [1, 1, (redis, key) => redis.string(key)]],
  ["MGET", [1, Infinity, (redis, ...keys) => keys.map((key) => redis.peek(key))]],
  ["SET", [2, Infinity, set]],
  ["INCR", [1, 1, (redis, key) => increment(redis, key, "1")]],
  ["INCRBY", [2, 2, increment]],
  ["HSET", [3, Infinity, setPairs]],
  ["HGET", [2, 2, (redis, key, field) => redis.hash(key)?.get(field) ?? null]],
  ["HGETALL", [1, 1, (redis, key) => [...(redis.hash(key) ?? [])].flat()]],
  ["HDEL", [2, Infinity, deleteFields]],
  ["RPUSH", [2, Infinity, push]],
  ["EVAL", [2, Infinity, evaluate]],
  ["EVALSHA", [2, Infinity, unknownDigest]],
]);

/** Runs one command to its end. @throws ReplyError with Redis' own text. */
export function run(redis: Keyspace, command: Command): Reply {
  const [name = "", ...args] = command.map(String);
  const [least = 0, most = 0, perform] = commands.get(name.toUpperCase()) ?? [];
  if (perform === undefined) throw unknownCommand(name, args);
  if (args.length < least || args.length > most) throw wrongNumber(name);
  return perform(redis, ...args);
}

function set(redis: Keyspace, key: string, value: string, ...options: string[]): Reply {
  const flags = new Set<string>();
  let expiry: readonly [amount: string, unitMs: number] | undefined;
  const rest = [...options];
  for (let option = rest.shift()?.toUpperCase(); option !== undefined; option = rest.shift()?.toUpperCase()) {
    const unitMs = option === "EX" ? 1_000 : 1;
    const amount = option === "EX" || option === "PX" ? rest.shift() : undefined;
    // Twice the same unit is fine with Redis, and the last one counts.
    if (amount !== undefined && (expiry?.[1] ?? unitMs) === unitMs) expiry = [amount, unitMs];
    else if (option === "NX" || option === "XX" || option === "GET") flags.add(option);
    else throw syntaxError();
  }
  if (flags.has("NX") && flags.has("XX")) throw syntaxError();
  const lifeMs = expiry && life(...expiry, "set", 1);
  const former = flags.has("GET") ? redis.string(key) : null;
  const refused = flags.has(redis.has(key) ? "NX" : "XX");
  if (!refused) redis.set(key, value, lifeMs);
  return flags.has("GET") ? former : refused ? null : "OK";
}

function increment(redis: Keyspace, key: string, by: string): Reply {
  const amount = integer(by);
  const total = sum(integer(redis.string(key) ?? "0"), amount);
  redis.replace(key, String(total));
  return toReply(total);
}

function setPairs(redis: Keyspace, key: string, ...pairs: string[]): Reply {
  if (pairs.length % 2 !== 0) throw wrongNumber("hset");
  const fields = pairs.filter((_, index) => index % 2 === 0);
  return setFields(
    redis,
    key,
    fields.map((field, index) => [field, pairs[2 * index + 1] ?? ""]),
  );
}

function push(redis: Keyspace, key: string, ...items: string[]): Reply {
  const list = redis.list(key) ?? [];
  redis.replace(key, list);
  return list.push(...items);
}

function deleteKeys(redis: Keyspace, ...keys: string[]): Reply {
  return keys.filter((key) => redis.delete(key)).length;
}

function flushAll(redis: Keyspace, mode = "SYNC"): Reply {
  if (!/^a?sync$/i.test(mode)) throw syntaxError();
  redis.clear();
  return "OK";
}

function unknownDigest(): Reply {
  throw new ReplyError("NOSCRIPT No matching script. Please use EVAL.");
}

function seconds(pttl: number): number {
  return pttl < 0 ? pttl : Math.floor((pttl + 500) / 1_000);
}
