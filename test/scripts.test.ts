/**
 * Random traces of commands run on a real Redis and on its memory twin, which must reply the same. Real time flows on
 * both; what is alive lives for a minute at least, and ends by a PEXPIRE of 0.
 */
import fc from "fast-check";
import { afterAll, beforeAll, expect, test } from "vitest";
import type { CommandClient, Reply } from "../src/command.ts";
import { lockKeys } from "../src/keys.ts";
import { runScript, type Script } from "../src/script.ts";
import { acquireScript } from "../src/scripts/acquire.ts";
import { extendScript } from "../src/scripts/extend.ts";
import { inspectScript } from "../src/scripts/inspect.ts";
import { releaseScript } from "../src/scripts/release.ts";
import { type Pair, startPair } from "./scripts/pair.ts";
import { describeRedis } from "./support/redis.ts";

const hourMs = 3_600_000;
const dayMs = 24 * hourMs;

describeRedis("a script and its twin", () => {
  let pair: Pair;
  beforeAll(async () => {
    pair = await startPair();
  });
  afterAll(() => pair.stop());

  test("reply the same in any trace of a lock", async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(lockStep, { maxLength: 40, size: "max" }), async (steps) => {
        await pair.clear();
        for (const step of steps) await pair.both(step.run);
        for (const key of allKeys) await expectSameKey(pair, key);
      }),
      { numRuns: 200 },
    );
  });
});

/** One step of a trace; fast-check prints its name in a counterexample. */
interface Step {
  readonly run: (client: CommandClient, serverUs: number) => Promise<Reply>;
  toString(): string;
}

function step(description: readonly unknown[], run: Step["run"]): Step {
  return { run, toString: () => JSON.stringify(description) };
}

/** Runs a script, and holds its reply to what every script must keep to. */
async function call(
  client: CommandClient,
  script: Script<unknown>,
  keys: readonly string[],
  args: readonly (string | number)[],
): Promise<Reply> {
  const reply = await runScript(client, { script, keys, args }, (command) => client.execute(command));
  for (const item of [reply].flat()) expect(item).toSatisfy(survivesParsers);
  return reply;
}

// No client's value parser may change a reply: integers pass, and strings that are no JSON. A false becomes null.
function survivesParsers(item: Reply): boolean {
  return Number.isSafeInteger(item) || item === null || (typeof item === "string" && /^[a-z]/i.test(item));
}

async function expectSameKey(pair: Pair, key: string): Promise<void> {
  const type = await pair.both((client) => client.execute(["TYPE", key]));
  await pair.both((client) => client.execute(["PTTL", key]));
  if (type === "string") await pair.both((client) => client.execute(["GET", key]));
  if (type === "hash") await pair.both((client) => client.execute(["HGETALL", key]));
}

const names = [lockKeys("lock", "a"), lockKeys("lock", "b:{tag}")] as const;
const tokens = ["t1", "t2"];
const allKeys = names.flatMap(({ lock, fence, tombstone }) => [lock, fence, ...tokens.map(tombstone)]);

// Mostly one name, so that steps meet.
const name = fc.oneof({ weight: 4, arbitrary: fc.constant(names[0]) }, { weight: 1, arbitrary: fc.constant(names[1]) });
const token = fc.constantFrom(...tokens);
// Far enough apart to be told from one another by the tolerance, and on both sides of the day that bounds the amnesia floor.
const leaseMs = fc.constantFrom(60_000, 2 * hourMs, 3 * dayMs);

// '' lets the node choose. Else relative to the server's clock, or to the counter that this client has.
const proposal = fc.oneof(
  fc.constant(undefined),
  fc.constantFrom(0, -30_000, -12 * hourMs, -25 * hourMs, hourMs, 23 * hourMs, 25 * hourMs).map((ms) => ({ ms })),
  fc.constantFrom(-1, 0, 1, 1_000).map((above) => ({ above })),
);

const acquire = fc.tuple(name, token, leaseMs, proposal).map(([keys, owner, life, proposed]) =>
  step(["acquire", keys.lock, owner, life, proposed], async (client, serverUs) => {
    let fence: string | number = "";
    if (proposed !== undefined && "ms" in proposed) fence = serverUs + proposed.ms * 1_000;
    else if (proposed !== undefined) fence = (await counterOf(client, keys.fence)) + proposed.above;
    return call(client, acquireScript, [keys.lock, keys.fence, keys.tombstone(owner)], [owner, life, fence]);
  }),
);

async function counterOf(client: CommandClient, fence: string): Promise<number> {
  const reply = await client.execute(["MGET", fence]);
  return Math.trunc(Number([reply].flat()[0])) || 0;
}

const release = fc
  .tuple(name, token, fc.constantFrom("0", "120000"))
  .map(([keys, owner, life]) =>
    step(["release", keys.lock, owner, life], (client) =>
      call(client, releaseScript, [keys.lock, keys.tombstone(owner)], [owner, life]),
    ),
  );

const extend = fc
  .tuple(name, token, leaseMs)
  .map(([keys, owner, life]) =>
    step(["extend", keys.lock, owner, life], (client) => call(client, extendScript, [keys.lock], [owner, life])),
  );

const inspect = name.map((keys) =>
  step(["inspect", keys.lock], (client) => call(client, inspectScript, [keys.lock, keys.fence], [])),
);

// What other programs and people do to the keys of a lock.
const text = fc.constantFrom("foreign", "", "t1", "5", " 7 ", "7.5", "1e3", "0x10", "-3", "12abc", String(2 ** 52));
const meddle = fc
  .oneof(
    fc.constantFrom(...allKeys).chain((key) =>
      fc.oneof(
        text.map((value) => ["SET", key, value]),
        text.map((value) => ["SET", key, value, "PX", 2 * hourMs]),
        fc.constantFrom(
          ["DEL", key],
          ["HSET", key, "field", "value"],
          ["RPUSH", key, "item"],
          ["PEXPIRE", key, 0],
          ["PEXPIRE", key, hourMs],
        ),
      ),
    ),
  )
  .map((command) => step(command, (client) => client.execute(command)));

const lockStep = fc.oneof(
  { weight: 6, arbitrary: acquire },
  { weight: 4, arbitrary: release },
  { weight: 2, arbitrary: extend },
  { weight: 1, arbitrary: inspect },
  { weight: 2, arbitrary: meddle },
);
