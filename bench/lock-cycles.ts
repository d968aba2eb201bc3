/**
 * Lock cycles against a floor written by hand, on one Redis in one run: `npm run bench`.
 *
 * The floor is what a lock costs at the very least with the same client: SET NX PX, then a script that compares and
 * deletes. It has no fence, no deadline and no idea of a lost reply. Each figure is the median of paired rounds, floor
 * and lock in turn, so that it holds on a machine whose speed drifts.
 */
import { Redis as UpstashRedis } from "@upstash/redis";
import { Redis } from "ioredis";
import { type CommandClient, createLock } from "leasehold";
import { ioredisClient } from "leasehold/ioredis";
import { restClient } from "leasehold/rest";
import { restToken, type Server, startRedis, startRest } from "./servers.ts";

/** Acquires and releases one key once. */
type Cycle = (key: string) => Promise<unknown>;

interface Scenario {
  readonly name: string;
  readonly floor: Cycle;
  readonly lock: Cycle;
  readonly keys: number;
  readonly cyclesPerKey: number;
  /** The least ratio to be content with. */
  readonly wanted: number;
}

const compareAndDelete = "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0";
const rounds = 15;

const redis = await startRedis();
const near = await startRest(redis.port, 0);
const far = await startRest(redis.port, 5);
const tcp = new Redis(redis.port, "127.0.0.1");
try {
  const overTcp = { floor: tcpFloor(tcp), lock: lockCycle(ioredisClient(tcp)) };
  const farClient = restClient({ url: at(far.port), token: restToken });
  const overHttp = { floor: commandFloor(farClient), lock: lockCycle(farClient) };
  const batching = ({ port }: Server) => restClient({ url: at(port), token: restToken, batch: true });
  const pipelining = ({ port }: Server) => upstashFloor(new UpstashRedis({ url: at(port), token: restToken }));
  const crowd = { keys: 64, cyclesPerKey: 20 };
  const scenarios: Scenario[] = [
    { name: "TCP, sequential", ...overTcp, keys: 1, cyclesPerKey: 1_000, wanted: 0.6 },
    { name: "TCP, 64 keys at once", ...overTcp, keys: 64, cyclesPerKey: 50, wanted: 0 },
    { name: "HTTP, 5 ms each way, sequential", ...overHttp, keys: 1, cyclesPerKey: 20, wanted: 0.95 },
    { name: "HTTP, 5 ms each way, 64 keys at once", ...overHttp, keys: 64, cyclesPerKey: 20, wanted: 0.95 },
    // The transports alone: the same commands over restClient and over @upstash/redis, which pipelines by itself.
    {
      name: "HTTP batched, 64 keys, same commands",
      floor: pipelining(near),
      lock: commandFloor(batching(near)),
      ...crowd,
      wanted: 0.95,
    },
    { name: "HTTP batched, 64 keys", floor: pipelining(near), lock: lockCycle(batching(near)), ...crowd, wanted: 0 },
    {
      name: "HTTP batched, 5 ms each way, 64 keys",
      floor: pipelining(far),
      lock: lockCycle(batching(far)),
      ...crowd,
      wanted: 0,
    },
  ];
  console.log(`Node ${process.version}, ${rounds} paired rounds, cycles per second (medians)\n`);
  console.log("scenario                                    floor     lock   ratio  wanted");
  for (const scenario of scenarios) {
    const { floor, lock, ratio } = await compare(scenario);
    const figures = [floor.toFixed(0).padStart(8), lock.toFixed(0).padStart(8), ratio.toFixed(2).padStart(7)];
    const wanted = scenario.wanted > 0 ? scenario.wanted.toFixed(2).padStart(7) : "";
    console.log(scenario.name.padEnd(41), ...figures, wanted, ratio < scenario.wanted ? "MISSED" : "");
    if (ratio < scenario.wanted) process.exitCode = 1;
  }
} finally {
  tcp.disconnect();
  await Promise.all([near.stop(), far.stop()]);
  await redis.stop();
}

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

async function compare(scenario: Scenario): Promise<{ floor: number; lock: number; ratio: number }> {
  const pairs: { floor: number; lock: number }[] = [];
  for (let round = -1; round < rounds; round += 1) {
    const floor = await cyclesPerSecond(scenario, scenario.floor, "floor");
    const lock = await cyclesPerSecond(scenario, scenario.lock, "lock");
    if (round >= 0) pairs.push({ floor, lock }); // the first pair warms up
  }
  return {
    floor: median(pairs.map((pair) => pair.floor)),
    lock: median(pairs.map((pair) => pair.lock)),
    ratio: median(pairs.map((pair) => pair.lock / pair.floor)),
  };
}

async function cyclesPerSecond({ keys, cyclesPerKey }: Scenario, cycle: Cycle, prefix: string): Promise<number> {
  const startedAt = performance.now();
  const loop = async (_: unknown, index: number): Promise<void> => {
    for (let done = 0; done < cyclesPerKey; done += 1) await cycle(`${prefix}-${index}`);
  };
  await Promise.all(Array.from({ length: keys }, loop));
  return (keys * cyclesPerKey * 1_000) / (performance.now() - startedAt);
}

function median(values: readonly number[]): number {
  return values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)] ?? Number.NaN;
}
