/**
 * What is compared: a lock, against what it costs at the very least with the same client, which is SET NX PX and then a
 * script that compares and deletes. That floor has no fence, no deadline and no idea of a lost reply.
 */
import { Redis as UpstashRedis } from "@upstash/redis";
import { Redis } from "ioredis";
import { type CommandClient, createLock } from "leasehold";
import { ioredisClient } from "leasehold/ioredis";
import { restClient } from "leasehold/rest";
import { farMs, restToken } from "./servers.ts";

/** Acquires and releases one key once. */
export type Cycle = (key: string) => Promise<unknown>;

/** The ports of one Redis, and of two REST servers before it: one beside this process, and one `farMs` away. */
export interface Ports {
  readonly redis: number;
  readonly near: number;
  readonly far: number;
}

/** Medians of the paired rounds. */
export interface Result {
  /** Cycles per second. */
  readonly floor: number;
  readonly lock: number;
  readonly ratio: number;
}

export interface Scenario {
  readonly name: string;
  readonly keys: number;
  readonly cyclesPerKey: number;
  /** The least ratio to be content with; 0 for none. */
  readonly wanted: number;
  /** Connects, and returns what is to be compared. */
  begin(ports: Ports): { readonly floor: Cycle; readonly lock: Cycle };
}

const compareAndDelete = "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0";

const overTcp = ({ redis }: Ports) => {
  const client = new Redis(redis, "127.0.0.1");
  return { floor: tcpFloor(client), lock: lockCycle(ioredisClient(client)) };
};
const overHttp = ({ far }: Ports) => {
  const client = restClient({ url: at(far), token: restToken });
  return { floor: commandFloor(client), lock: lockCycle(client) };
};
const batched = (port: number, cycle: (client: CommandClient) => Cycle) => ({
  floor: upstashFloor(new UpstashRedis({ url: at(port), token: restToken })),
  lock: cycle(restClient({ url: at(port), token: restToken, batch: true })),
});
const crowd = { keys: 64, cyclesPerKey: 20 };

export const scenarios: readonly Scenario[] = [
  { name: "TCP, sequential", keys: 1, cyclesPerKey: 1_000, wanted: 0.6, begin: overTcp },
  { name: "TCP, 64 keys at once", keys: 64, cyclesPerKey: 50, wanted: 0, begin: overTcp },
  { name: `HTTP, ${farMs} ms each way, sequential`, keys: 1, cyclesPerKey: 20, wanted: 0.95, begin: overHttp },
  { name: `HTTP, ${farMs} ms each way, 64 keys at once`, ...crowd, wanted: 0.95, begin: overHttp },
  // The transports alone: the same commands over restClient and over @upstash/redis, which pipelines by itself.
  {
    name: "HTTP batched, 64 keys, same commands",
    ...crowd,
    wanted: 0.95,
    begin: ({ near }) => batched(near, commandFloor),
  },
  { name: "HTTP batched, 64 keys", ...crowd, wanted: 0, begin: ({ near }) => batched(near, lockCycle) },
  {
    name: `HTTP batched, ${farMs} ms each way, 64 keys`,
    ...crowd,
    wanted: 0,
    begin: ({ far }) => batched(far, lockCycle),
  },
];

function at(port: number): string {
  return `http://127.0.0.1:${port}`;
}

function tcpFloor(client: Redis): Cycle {
  let sha: Promise<unknown> | undefined;
  return async (key) => {
    sha ??= client.script("LOAD", compareAndDelete);
    const token = crypto.randomUUID();
    if ((await client.set(key, token, "PX", 10_000, "NX")) !== "OK") throw new Error("not free");
    await client.evalsha(String(await sha), 1, key, token);
  };
}

function commandFloor(client: CommandClient): Cycle {
  return async (key) => {
    const token = crypto.randomUUID();
    if ((await client.execute(["SET", key, token, "NX", "PX", 10_000])) !== "OK") throw new Error("not free");
    await client.execute(["EVAL", compareAndDelete, 1, key, token]);
  };
}

function upstashFloor(client: UpstashRedis): Cycle {
  return async (key) => {
    const token = `t${crypto.randomUUID()}`;
    if ((await client.set(key, token, { nx: true, px: 10_000 })) !== "OK") throw new Error("not free");
    await client.eval(compareAndDelete, [key], [token]);
  };
}

function lockCycle(client: CommandClient): Cycle {
  const lock = createLock(client);
  return async (key) => {
    const lease = await lock.acquire(key);
    // On a machine that is busy with something else an answer may come after the time-out: the second call settles it.
    const outcome = await lease.release().catch(() => lease.release());
    if (outcome !== "released") throw new Error(outcome);
  };
}
