/** Unit tests run on a virtual clock: only what has a real server, runtime or process on its other side may wait for one. */
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";
import { readSource, type SourceFile, sourcesUnder } from "./architecture/source.ts";

const root = fileURLToPath(new URL("..", import.meta.url));
const files = sourcesUnder(root, ["test"]);

/** Who may wait, and for what. */
const waiting: Readonly<Record<string, string>> = {
  "test/adapters/rest-server.test.ts": "a Hono app has read a request",
  "test/bin/commands.test.ts": "a lease on real nodes is held by all of them",
  "test/bin/serve.test.ts": "a real Redis has ended, and is up again",
  "test/cache/stress.ts": "reads and builds overlap on a real Redis",
  "test/cache/transports.test.ts": "builds overlap on a real Redis",
  "test/clock.test.ts": "nothing: it is sleep() that is tested, on a virtual clock",
  "test/doctor/five.ts": "a real replica follows its primary",
  "test/doctor/servers.test.ts": "real nodes hold what a lease has on them",
  "test/examples/task-coordinator/coordinating.test.ts": "a sweep takes longer than its lease on a real Redis",
  "test/examples/task-coordinator/kills.test.ts": "leases of processes that were killed end on a real Redis",
  "test/examples/task-coordinator/page.test.ts": "a real browser shows what has changed",
  "test/examples/task-coordinator/worker.test.ts": "a lease on a real Redis is renewed",
  "test/examples/cloudflare-cache.test.ts": "a Worker in workerd is in the midst of a rebuild",
  "test/examples/lambda-cache.test.ts": "a function's next build may begin",
  "test/examples/lambda-observed.ts": "a function that is observed shows what it leaves pending",
  "test/redlock/fleet.ts": "real servers start, hang and are far away",
  "test/redlock/workers.test.ts": "what a Worker left behind its response has ended",
  "test/redlock/servers.test.ts": "late answers of real servers have come in",
  "test/reports/bun.test.ts": "Bun closes an idle connection",
  "test/reports/fencing.test.ts": "a lease on a real Redis ends",
  "test/reports/process-life.test.ts": "a lock is renewed by timers as other runtimes have them",
  "test/reports/scripts.test.ts": "a real Redis Cluster is up",
  "test/runtimes/lambda/handler.ts": "a frozen process is shown what its timers do",
  "test/runtimes/lambda/lambda.test.ts": "a function holds its lease, and is frozen",
  "test/runtimes/scenario.ts": "a runtime's own timers do their work",
  "test/runtimes/workers/smoke.ts": "the timers of workerd do their work",
  "test/runtimes/workers/workers.test.ts": "work behind the response has ended in workerd",
  "test/support/cluster.ts": "a real Redis Cluster is up",
};

const waits = ["setTimeout", "setInterval", "sleep", "AbortSignal.timeout", "Atomics.wait"];
const polls = ["vi.waitFor", "vi.waitUntil", "expect.poll"];

/** The ways in which a file can let real time pass, by the names that it uses; what is in a text or a comment is none. */
function waitsIn({ words, imports }: SourceFile): string[] {
  const timers = imports.filter((specifier) => /^(node:)?timers(\/promises)?$/.test(specifier));
  return [...[...waits, ...polls].filter((word) => words.has(word)), ...timers];
}

/** One sentence for each file that waits and may not, and for each that may and does not. */
function findings(sources: readonly SourceFile[]): string[] {
  const found = new Map(sources.map((source) => [source.path, waitsIn(source)]));
  return [
    ...[...found]
      .filter(([path, ways]) => ways.length > 0 && !Object.hasOwn(waiting, path))
      .map(([path, ways]) => `${path} waits in real time: ${ways.join(", ")}`),
    ...Object.keys(waiting)
      .filter((path) => (found.get(path) ?? []).length === 0)
      .map((path) => `${path} waits no longer: take it off the list`),
  ];
}

test("no unit test waits in real time", () => {
  expect(files.filter(({ path }) => path.endsWith(".test.ts")).length).toBeGreaterThan(40);
  expect(findings(files)).toEqual([]);
});

test.for([
  "await new Promise((resolve) => setTimeout(resolve, 5));",
  "globalThis.setTimeout(done, 5);",
  "globalThis['setInterval'](done, 5);",
  "const { setTimeout: set } = globalThis;",
  'import { setTimeout as pause } from "node:timers/promises";',
  'import timers from "timers/promises";',
  'const { setTimeout: pause } = await import("node:timers/promises");',
  'import { sleep } from "../src/clock.ts";',
  "await sleep(5);",
  "const signal = AbortSignal.timeout(5);",
  "Atomics.wait(cell, 0, 0, 5);",
  "await vi.waitFor(() => expect(done).toBe(true));",
  "await expect.poll(() => done).toBe(true);",
])("a unit test with the line %s is refused", (line) => {
  const breach = readSource("test/lock.test.ts", line);
  expect(findings([...files.filter(({ path }) => path !== breach.path), breach])).toHaveLength(1);
});

test.for([
  "await clock.advance(5_000);",
  'vi.stubGlobal("setTimeout", fake);',
  'vi.spyOn(globalThis, "setTimeout");',
  "const text = 'await sleep(5)'; // setTimeout(done, 5)",
  "const timings = { setTimeout: 5 }; timings.setTimeout; clock.sleep;",
])("a unit test with the line %s is none that waits", (line) => {
  expect(waitsIn(readSource("test/lock.test.ts", line))).toEqual([]);
});

test("a file that waits no longer must leave the list", () => {
  const path = "test/clock.test.ts";
  const calm = [...files.filter((file) => file.path !== path), readSource(path, "")];
  expect(findings(calm)).toEqual([`${path} waits no longer: take it off the list`]);
});
