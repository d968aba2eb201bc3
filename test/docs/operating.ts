/**
 * The incidents of docs/operating.md on real servers, under the names that they have there.
 *
 * @module
 */
import { ioredisClient } from "../../adapters/ioredis.ts";
import { createLock } from "../../src/lock.ts";
import { start } from "../bin/run.ts";
import { type Sound, startDurable, startReplica } from "../doctor/five.ts";
import { startDelay } from "../redlock/fleet.ts";
import { startShiftedClock } from "../support/shifted-clock.ts";

/** The address behind each name in the document, such as "127.0.0.1:45013" behind "redis-1:6379". */
export type Addresses = ReadonlyMap<string, string>;

/** Brings all three about. */
export async function startIncidents(stack: AsyncDisposableStack): Promise<Addresses> {
  const addresses = new Map<string, string>();
  const name = (host: string, port: number): void => void addresses.set(`${host}:6379`, `127.0.0.1:${port}`);
  const clientOf = ({ redis }: Sound) => ioredisClient(redis);

  // A lease that ended in mid-work: its holder did not renew it, and another has taken over.
  const one = await startDurable(stack);
  name("redis-1", one.port);
  const lock = createLock(clientOf(one), { leaseMs: 60_000 });
  const paused = await lock.acquire("invoice:42");
  await one.redis.del(paused.key); // as its end would have done
  await lock.acquire("invoice:42");
  const delay = await startDelay(one.port);
  stack.defer(delay.stop);
  delay.delayMs = 100;
  name("redis-far", delay.port);

  // A clock that is wrong.
  const three = [await startDurable(stack), await startDurable(stack), await startDurable(stack)];
  for (const [index, { port }] of three.entries()) name(`redis-${"abc"[index]}`, port);
  const shifted = await startShiftedClock(three[2]?.port ?? 0, -47);
  stack.defer(shifted.stop);
  name("redis-c", shifted.port);

  // A lock that was lost as a replica took over, while the old primary still stands.
  const primary = await startDurable(stack);
  const replica = await startReplica(stack, primary);
  name("redis-old", primary.port);
  name("redis-new", replica.port);
  await replica.redis.replicaof("NO", "ONE");
  await replica.redis.config("SET", "appendonly", "yes");
  await replica.redis.config("SET", "appendfsync", "always");
  await createLock(clientOf(primary), { leaseMs: 60_000 }).acquire("invoice:42"); // which the replica has not got
  await createLock(clientOf(replica), { leaseMs: 60_000 }).acquire("invoice:42");
  return addresses;
}

/** Runs one command line of the document, and gives what it prints under the names that it has there. */
export async function runLine(line: string, addresses: Addresses): Promise<string> {
  const [, command = ""] = /^npx leasehold (.*)$/.exec(line) ?? [];
  let text = command;
  for (const [name, address] of addresses) text = text.replaceAll(name, address);
  let output = (await start(text.split(" ")).ended).stdout;
  for (const [name, address] of addresses) output = output.replaceAll(address, name);
  return output;
}

/** A line without what differs from run to run: figures, tokens, and the width of columns. */
export function comparable(text: string): string {
  return text
    .replace(/\bt[0-9a-f]{7}…/g, "TOKEN")
    .replace(/redis-(\w+):6379/g, "HOST-$1")
    .replace(/[+-]?\d+(\.\d+)*/g, "#")
    .replace(/ +/g, " ")
    .trim();
}
