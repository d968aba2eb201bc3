/**
 * A private Redis and a memory client whose clock is set from it before every step, so that both must reply the same.
 *
 * @module
 */
import { Redis } from "ioredis";
import { expect } from "vitest";
import { ioredisClient } from "../../adapters/ioredis.ts";
import { memoryClient } from "../../adapters/memory/index.ts";
import { type CommandClient, isReplyError, type Reply } from "../../src/command.ts";
import { startRedis } from "../support/redis.ts";
import { VirtualClock } from "../support/virtual-clock.ts";

/** What came back of one step: a reply, or the text of an error. */
export type Outcome = Reply | { readonly error: string };

export interface Pair {
  readonly real: CommandClient;
  readonly memory: CommandClient;
  /** Empties both and forgets the fences seen so far. */
  clear(): Promise<void>;
  /**
   * Runs a step on both and expects the same outcome: fences in the same order as all before them, remaining times
   * within a tolerance, all else equal. Gives what the real Redis said.
   */
  both(step: (client: CommandClient, serverUs: number) => Promise<Reply>): Promise<Outcome>;
  stop(): Promise<void>;
}

export async function startPair(): Promise<Pair> {
  const server = await startRedis();
  const redis = new Redis(server.port, "127.0.0.1");
  const clock = new VirtualClock();
  const real = ioredisClient(redis);
  const memory = memoryClient({}, { clock });
  const seen: (readonly [real: number, memory: number])[] = [];

  return {
    real,
    memory,
    async clear() {
      seen.length = 0;
      await Promise.all([real.execute(["FLUSHALL"]), memory.execute(["FLUSHALL"])]);
    },
    async both(step) {
      const [seconds, micros] = await redis.time();
      const serverUs = Number(seconds) * 1e6 + Number(micros);
      clock.wall = serverUs / 1_000;
      const expected = await outcome(step(real, serverUs));
      const actual = await outcome(step(memory, serverUs));
      expectAlike(actual, expected, seen);
      return expected;
    },
    async stop() {
      redis.disconnect();
      await server.stop();
    },
  };
}

async function outcome(reply: Promise<Reply>): Promise<Outcome> {
  try {
    return await reply;
  } catch (error) {
    if (!isReplyError(error)) throw error;
    // Redis adds to the error of a command in a script where it happened, which a twin cannot know.
    return { error: error.message.replace(/ script: [0-9a-f]{40}, on @user_script:\d+\.$/, "") };
  }
}

// The server's clock in µs, and so every fence, is far above any time that is left, in ms.
const leastFence = 1e14;
// The shortest that ends by itself is the first back-off, of a second; latency may have taken some of it.
const leastDuration = 900;
const toleranceMs = 30_000;

function expectAlike(actual: Outcome, expected: Outcome, seen: (readonly [real: number, memory: number])[]): void {
  if (Array.isArray(expected) && Array.isArray(actual)) {
    expect(actual.length, JSON.stringify([actual, expected])).toBe(expected.length);
    for (const [index, item] of expected.entries()) expectAlike(actual[index] ?? null, item, seen);
    return;
  }
  if (typeof expected === "number" && !Number.isSafeInteger(expected)) {
    expect(Number(actual)).toBe(expected); // ioredis rounds
    return;
  }
  const [a, e] = [numberOf(actual), numberOf(expected)];
  if (e === undefined || a === undefined || e < leastDuration) {
    expect(actual).toEqual(expected);
    return;
  }
  const tolerance = e < leastFence ? toleranceMs : toleranceMs * 1_000;
  expect(Math.abs(a - e), `${a} is not near ${e}`).toBeLessThan(tolerance);
  if (e < leastFence) return;
  for (const [otherE, otherA] of seen) {
    expect(Math.sign(a - otherA), `${a} stands to ${otherA} as ${e} to ${otherE}`).toBe(Math.sign(e - otherE));
  }
  seen.push([e, a]);
}

function numberOf(value: Outcome): number | undefined {
  if (typeof value === "number") return value;
  return typeof value === "string" && /^\d{1,16}$/.test(value) ? Number(value) : undefined;
}
