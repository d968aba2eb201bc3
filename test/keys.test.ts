import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import fc from "fast-check";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { isLockError } from "../src/errors.ts";
import { cacheKey, lockKeys } from "../src/keys.ts";
import { ScriptServer } from "./scripts/server.ts";
import { slotOf } from "./scripts/slot.ts";
import { describeRedis } from "./support/redis.ts";

// Names made of all that the rules of keys.ts look at, and of what surrounds it.
const hostile = fc
  .array(
    fc.constantFrom(
      "a",
      "{",
      "}",
      "{}",
      "{a}",
      "%",
      "%7B",
      "%7D",
      "%25",
      "7B",
      ":",
      ":fence",
      ":void:",
      "t1",
      "é",
      "😀",
      "\n",
    ),
    { minLength: 1, maxLength: 8 },
  )
  .map((parts) => parts.join(""));
const name = fc.oneof(
  { weight: 4, arbitrary: hostile },
  { weight: 1, arbitrary: fc.string({ minLength: 1, unit: "grapheme" }) },
);
const tokens = ["t1", "t00ff"];

/** All keys of a lock; none where the name is refused. */
function keysOf(name: string): string[] {
  try {
    const { lock, fence, tombstone } = lockKeys("lock", name);
    return [lock, fence, ...tokens.map(tombstone)];
  } catch (error) {
    expect(error).toSatisfy((error) => isLockError(error, "config"));
    return [];
  }
}

describe("lockKeys()", () => {
  test.for([
    ["invoice:42", "lock:{invoice:42}"],
    ["{42}", "lock:{%7B42%7D}"],
    ["rebuild:{42}", "lock:rebuild:{42}"],
    ["{42}:rebuild", "lock:{42}:rebuild"],
    ["rebuild:{42}:100%", "lock:rebuild:{42}:100%25"],
    ["100%:{42}:5%", "lock:100%25:{42}:5%25"],
    ["{42}:fence:post", "lock:{42}:fence:post"],
    ["100%", "lock:{100%25}"],
    ["{}", "lock:{%7B%7D}"],
    ["{}{a}", "lock:{%7B%7D%7Ba%7D}"],
    ["x}y{z", "lock:{x%7Dy%7Bz}"],
    ["{a}{b}", "lock:{a}{b}"],
    ["日本", "lock:{日本}"],
    ["a:fence", "lock:{a:fence}"],
    ["a:void:t1", "lock:{a:void:t1}"],
  ] as const)("the lock %j stands at %j", ([name, key]) => {
    const { lock, fence, tombstone } = lockKeys("lock", name);
    expect(lock).toBe(key);
    expect(fence).toBe(`${key}:fence`);
    expect(tombstone("t1")).toBe(`${key}:void:t1`);
  });

  test.for(["x:{42}:fence", "{42}:void:t1", "x{42}:void:"])("the name %j is refused", (name) => {
    expect(() => lockKeys("lock", name)).toThrow(/^Cannot use name as it must be .+: current value is "/);
    expect(keysOf(name)).toEqual([]);
  });

  test("all keys of one lock are in one slot", () => {
    fc.assert(
      fc.property(name, (name) => {
        expect(new Set(keysOf(name).map(slotOf)).size).toBeLessThanOrEqual(1);
      }),
      { numRuns: 2_000 },
    );
  });

  test("a name with a hash tag of its own is in the slot of that tag", () => {
    expect(slotOf(lockKeys("lock", "rebuild:{42}").lock)).toBe(slotOf("42"));
    expect(slotOf(cacheKey("cache", "42"))).toBe(slotOf("42"));
    expect(slotOf(lockKeys("lock", "42").lock)).toBe(slotOf("42"));
  });

  test("no two names share a key", () => {
    fc.assert(
      fc.property(fc.uniqueArray(name, { minLength: 2, maxLength: 40 }), (names) => {
        const keys = names.flatMap(keysOf);
        expect(new Set(keys).size).toBe(keys.length);
      }),
      { numRuns: 500 },
    );
  });

  // Random names seldom differ by just what an encoding could confuse: here each differs from another by one step of it.
  test("no name shares a key with what looks like its encoding or like one of its derived keys", () => {
    fc.assert(
      fc.property(name, (name) => {
        const shapes = [
          name,
          `{${name}}`,
          name.replaceAll("%", "%25"),
          name.replaceAll("{", "%7B"),
          name.replaceAll("}", "%7D"),
        ];
        const names = [...new Set(shapes.flatMap((shape) => [shape, `${shape}:fence`, `${shape}:void:t1`]))];
        const keys = names.flatMap(keysOf);
        expect(new Set(keys).size).toBe(keys.length);
      }),
      { numRuns: 2_000 },
    );
  });
});

test("cacheKey() gives no two keys of a cache the same place", () => {
  fc.assert(
    fc.property(fc.uniqueArray(name, { minLength: 2, maxLength: 40 }), (names) => {
      expect(new Set(names.map((name) => cacheKey("cache", name))).size).toBe(names.length);
    }),
    { numRuns: 500 },
  );
});

describeRedis("keys on a Redis Cluster", () => {
  const redis = new ScriptServer();
  let folder: string;
  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), "leasehold-cluster-"));
    await redis.start(["--cluster-enabled", "yes", "--dir", folder]);
  });
  afterAll(async () => {
    await redis.stop();
    await rm(folder, { recursive: true });
  });

  test("Redis puts every key where these tests say that it does", async () => {
    await fc.assert(
      fc.asyncProperty(name, async (name) => {
        for (const key of [name, ...keysOf(name), cacheKey("cache", name)]) {
          expect(await redis.execute("CLUSTER", "KEYSLOT", key)).toBe(slotOf(key));
        }
      }),
      { numRuns: 200 },
    );
  });
});
