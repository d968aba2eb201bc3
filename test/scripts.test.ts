/**
 * Random traces of commands run on a real Redis and on its memory twin, which must reply the same. Real time flows on
 * both; what is alive lives for a minute at least, and ends by a PEXPIRE of 0.
 */
import fc from "fast-check";
import { afterAll, beforeAll, expect, test } from "vitest";
import { memoryClient } from "../adapters/memory/index.ts";
import type { CommandClient, Reply } from "../src/command.ts";
import { lockKeys } from "../src/keys.ts";
import { runScript, type Script } from "../src/script.ts";
import { acquireScript } from "../src/scripts/acquire.ts";
import { commitScript } from "../src/scripts/commit.ts";
import { electScript } from "../src/scripts/elect.ts";
import { extendScript } from "../src/scripts/extend.ts";
import { inspectScript } from "../src/scripts/inspect.ts";
import { invalidateScript } from "../src/scripts/invalidate.ts";
import { proposeScript } from "../src/scripts/propose.ts";
import { releaseScript } from "../src/scripts/release.ts";
import { tendScript } from "../src/scripts/tend.ts";
import { allScripts } from "./scripts/all.ts";
import { type Pair, startPair } from "./scripts/pair.ts";
import { describeRedis } from "./support/redis.ts";

const hourMs = 3_600_000;
const dayMs = 24 * hourMs;

const scripts = await allScripts();

test.for(scripts)("$name has a twin in memory, behind any header line too", async ({ script, keys, sampleArgs }) => {
  for (const header of ["", "#!lua\n", "#!lua flags=allow-key-locking\n"]) {
    const names = keys.map((_, index) => `key:${index}`);
    const reply = await memoryClient().execute(["EVAL", header + script.source, keys.length, ...names, ...sampleArgs]);
    expect(script.decode(reply)).toBeDefined();
  }
});

describeRedis("a script and its twin", () => {
  let pair: Pair;
  beforeAll(async () => {
    pair = await startPair();
  });
  afterAll(() => pair.stop());

  test("reply the same in any trace of a lock", async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(lockStep, { maxLength: 40, size: "max" }), async (steps) => {
        const trace = async (): Promise<void> => {
          await pair.clear();
          for (const step of steps) await pair.both(step.run);
          for (const key of allKeys) await expectSameKey(pair, key);
        };
        // A busy machine may put a server's clock on the other side of a proposal; a twin that is wrong is so twice.
        await trace().catch(trace);
      }),
      { numRuns: 200 },
    );
  });

  test("reply the same in any trace of a cache", async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(cacheStep, { maxLength: 40, size: "max" }), async (steps) => {
        await pair.clear();
        wonBy.clear();
        for (const step of steps) await pair.both(step.run);
        await expectSameKey(pair, entry);
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
  if (type === "hash") await pair.both(async (client) => withoutLatency(await client.execute(["HGETALL", key]), "d"));
}

const names = [lockKeys("lock", "a"), lockKeys("lock", "b:{tag}")] as const;
const tokens = ["t1", "t2"];
const allKeys = names.flatMap(({ lock, fence, tombstone }) => [lock, fence, ...tokens.map(tombstone)]);

// Mostly one name, so that steps meet.
const name = fc.oneof({ weight: 4, arbitrary: fc.constant(names[0]) }, { weight: 1, arbitrary: fc.constant(names[1]) });
const token = fc.constantFrom(...tokens);
// Far enough apart to be told from one another by the tolerance, and on both sides of the day that bounds the amnesia floor.
const leaseMs = fc.constantFrom(60_000, 2 * hourMs, 3 * dayMs);

// Without one the node chooses. Else relative to the server's clock, or to the counter that this client has.
const proposal = fc.oneof(
  fc.constant(undefined),
  fc.constantFrom(0, -30_000, -12 * hourMs, -25 * hourMs, hourMs, 23 * hourMs, 25 * hourMs).map((ms) => ({ ms })),
  fc.constantFrom(-1, 0, 1, 1_000).map((above) => ({ above })),
);

// How long a server must be up to grant; none of the two is for an hour.
const leastUptimeMs = fc.constantFrom(undefined, 0, hourMs);

const acquire = fc.tuple(name, token, leaseMs, proposal, leastUptimeMs).map(([keys, owner, life, proposed, uptime]) =>
  step(["acquire", keys.lock, owner, life, proposed, uptime], async (client, serverUs) => {
    const lockKeys = [keys.lock, keys.fence, keys.tombstone(owner)];
    if (proposed === undefined) return call(client, acquireScript, lockKeys, [owner, life]);
    const fence =
      "ms" in proposed ? serverUs + proposed.ms * 1_000 : (await counterOf(client, keys.fence)) + proposed.above;
    const args = uptime === undefined ? [owner, life, fence] : [owner, life, fence, uptime];
    return call(client, proposeScript, lockKeys, args);
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

const entry = "cache:{a}";

// A fence that a client was elected with, by how many elections it has won since; both clients win the same ones.
const wonBy = new Map<CommandClient, number[]>();
const attempt = fc.oneof({ weight: 3, arbitrary: fc.constant(1) }, { weight: 1, arbitrary: fc.constantFrom(2, 3) });

function fenceOf(client: CommandClient, back: number): number {
  return wonBy.get(client)?.at(-back) ?? 1;
}

const codec = fc.oneof({ weight: 4, arbitrary: fc.constant("j") }, { weight: 1, arbitrary: fc.constant("s") });

const elect = fc
  .tuple(token, fc.constantFrom(100_000, hourMs), codec, fc.constantFrom(0, 1, 1, 1, 2), fc.constantFrom(0, 2 * hourMs))
  .map(([owner, life, letter, mode, staleMs]) =>
    step(["elect", owner, life, letter, mode, staleMs], async (client) => {
      const reply = await call(client, electScript, [entry], [owner, life, letter, mode, staleMs]);
      const { type, attempt: fence = 0 } = electScript.decode(reply) ?? {};
      if (type === "won") wonBy.set(client, [...(wonBy.get(client) ?? []), fence]);
      return measured(reply);
    }),
  );

const commit = fc
  .tuple(token, attempt, codec, fc.constantFrom(0, hourMs, 3 * hourMs), fc.constantFrom(0, 2 * hourMs))
  .map(([owner, back, letter, freshMs, staleMs]) =>
    step(["commit", owner, back, letter, freshMs, staleMs], async (client) => {
      const payload = `${letter}{"back":${back}}`;
      const args = [owner, fenceOf(client, back), letter, payload, freshMs, freshMs + staleMs];
      return measured(await call(client, commitScript, [entry], args));
    }),
  );

const tend = fc
  .tuple(token, attempt, codec, fc.constantFrom(-1, 0, 100_000, 2 * hourMs))
  .map(([owner, back, letter, lease]) =>
    step(["tend", owner, back, letter, lease], async (client) =>
      measured(await call(client, tendScript, [entry], [owner, fenceOf(client, back), letter, lease])),
    ),
  );

const invalidate = fc
  .constantFrom(0, 1)
  .map((soft) =>
    step(["invalidate", soft], async (client) => measured(await call(client, invalidateScript, [entry], [soft]))),
  );

// Time that has passed, and what does not belong into an entry.
const tamper = fc.oneof(
  fc
    .oneof(
      fc.tuple(fc.constantFrom("fu", "xu", "lu", "bu", "ls"), fc.constantFrom(-hourMs, -200_000)),
      fc.tuple(fc.constantFrom("fu", "xu", "lu", "bu"), fc.constant(hourMs)),
    )
    .map(([field, ms]) =>
      step(["HSET", field, ms], (client, serverUs) =>
        client.execute(["HSET", entry, field, Math.floor(serverUs / 1_000) + ms]),
      ),
    ),
  fc
    .constantFrom(
      ...["50000", "400000", ""].map((value) => ["HSET", entry, "d", value]),
      ...["fu", "xu", "t", "lf", "lu", "d"].map((field) => ["HDEL", entry, field]),
      ["HSET", entry, "fl", 2 ** 52],
      ["HSET", entry, "lf", 2 ** 52],
      ["HSET", entry, "e", 40],
      ["DEL", entry],
      ["PEXPIRE", entry, 0],
      ["SET", entry, "foreign"],
    )
    .map((command) => step(command, (client) => client.execute(command))),
);

const cacheStep = fc.oneof(
  { weight: 6, arbitrary: elect },
  { weight: 4, arbitrary: commit },
  { weight: 3, arbitrary: tend },
  { weight: 2, arbitrary: invalidate },
  { weight: 4, arbitrary: tamper },
);

/** The reply of a script on an entry, without what differs by how fast each of the two replied. */
function measured(reply: Reply): Reply {
  const items = [reply].flat().map((item, index) => (index === 5 ? Math.abs(Number(item)) : item)); // an age may be below 0
  return withoutLatency(items, 5, 6, 7);
}

/** Blanks measured durations of less than a second, which differ by how fast each of the two replied. */
function withoutLatency(reply: Reply, ...places: (number | string)[]): Reply {
  const items = [reply].flat();
  return items.map((item, index) => {
    const measured = places.includes(index) || places.some((place) => place === items[index - 1]);
    return measured && item !== "" && item !== null && Number(item) >= 0 && Number(item) < 1_000 ? 0 : item;
  });
}
