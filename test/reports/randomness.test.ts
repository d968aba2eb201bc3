/** A12: runtimes whose random source is not where a lock looks for it. */
import { afterEach, expect, test, vi } from "vitest";
import { memoryClient } from "../../adapters/memory/index.ts";
import { createCache } from "../../src/cache.ts";
import { createLock } from "../../src/lock.ts";
import { systemRandom } from "../../src/random.ts";
import { createRedlock } from "../../src/redlock.ts";
import { faultyClient } from "../support/faulty-client.ts";
import { lockError } from "../support/rejection.ts";
import { virtualEnvironment } from "../support/virtual-clock.ts";

afterEach(() => {
  vi.unstubAllGlobals();
  vi.restoreAllMocks();
});

// What reaches for Node's own module fails here; in src no such import is let through by architecture.test.ts.
vi.mock("node:crypto", () => {
  throw new Error("There is no node:crypto on this platform");
});

test("A12 with nothing but getRandomValues, 10 000 leases have tokens of a letter and 128 bits, all distinct", async () => {
  const { crypto } = globalThis;
  const getRandomValues = vi.fn((bytes: Uint8Array<ArrayBuffer>) => crypto.getRandomValues(bytes));
  vi.stubGlobal("crypto", { getRandomValues });
  const { env, client } = platform();
  const lock = createLock(client, {}, env);
  const tokens = new Set<string>();
  for (let count = 0; count < 10_000; count += 1) {
    const { token } = await lock.acquire(`job ${count}`);
    expect(token).toMatch(/^[a-z][0-9a-f]{32}$/);
    tokens.add(token);
  }
  expect(tokens.size).toBe(10_000);
  expect(getRandomValues.mock.calls.length).toBeGreaterThanOrEqual(10_000);
});

const absent: [what: string, crypto: unknown][] = [
  ["no crypto", undefined],
  ["a crypto without getRandomValues", { randomUUID: () => "00000000-0000-4000-8000-000000000000" }],
];

test.for(absent)("A12 with %s, all that needs a token is a config error, and nothing is sent", async ([, crypto]) => {
  vi.stubGlobal("crypto", crypto);
  const weak = vi.spyOn(Math, "random");
  const { env, client } = platform();
  const cache = createCache(client, {}, env);
  const attempts = [
    () => createLock(client, {}, env).acquire("job"),
    () => createLock(client, {}, env).tryAcquire("job"),
    () => createLock(client, {}, env).withLock("job", () => expect.fail("ran")),
    () => createRedlock([client], {}, env).acquire("job"),
    () => cache.get("report", { freshMs: 1_000 }, () => expect.fail("built")),
    () => cache.set("report", 1, { freshMs: 1_000 }),
  ];
  for (const attempt of attempts) {
    const error = await lockError(attempt(), "config");
    expect(error.message).toMatch(/^Cannot use crypto as it must be one with getRandomValues: current value is /);
  }
  expect(weak).not.toHaveBeenCalled();
  expect(client.sent).toEqual([]);
});

/** A Redis in this process, and the runtime's own chance. */
function platform() {
  const env = { ...virtualEnvironment(), random: systemRandom };
  return { env, client: faultyClient(memoryClient({}, env), env.clock) };
}
