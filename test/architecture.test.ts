/** Holds the layout to what it promises. Each rule is also shown a breach, so that none is a rule that cannot fail. */
import { spawnSync } from "node:child_process";
import { copyFileSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { gzipSync } from "node:zlib";
import { build } from "esbuild";
import { describe, expect, test } from "vitest";
import manifest from "../package.json" with { type: "json" };
import {
  adapterImportFindings,
  ceilingFindings,
  cycleFindings,
  doorFindings,
  exportsFindings,
  nameFindings,
  peerFindings,
  srcImportFindings,
  userImportFindings,
} from "./architecture/rules.ts";
import { readSource, type SourceFile, sourcesUnder } from "./architecture/source.ts";

const root = fileURLToPath(new URL("..", import.meta.url));
const shipped = sourcesUnder(root, ["src", "adapters"]);
const users = sourcesUnder(root, ["examples", "bench", "bin"]);
const entries = Object.keys(manifest.exports).flatMap((entry) => (/^\.\/[^.]+$/.test(entry) ? [entry.slice(2)] : []));
const declared = Object.keys(manifest.devDependencies);

/** The shipped files with one more, or with another text in place of one. */
function withFile(path: string, text: string): SourceFile[] {
  return [...shipped.filter((file) => file.path !== path), readSource(path, text)];
}

describe("imports", () => {
  test("src imports only src, from the lower tiers to the upper", () => {
    expect(shipped.length).toBeGreaterThan(30);
    expect(srcImportFindings(shipped)).toEqual([]);
  });

  test.each([
    ["src/keys.ts", 'import { createLock } from "./lock.ts";'],
    ["src/validity.ts", 'export * from "./node.ts";'],
    ["src/lease.ts", 'import type { Task } from "./with-lock.ts";'],
    ["src/lock.ts", 'type Server = import("./index.ts").Lock;'],
    ["src/lock.ts", 'import { restClient } from "../adapters/rest.ts";'],
    ["src/random.ts", 'import { randomBytes } from "node:crypto";'],
    ["src/random.ts", 'import { nanoid } from "nanoid";'],
    ["src/host.ts", 'const fs = await import("node:fs");'],
    ["src/host.ts", "const any = await import(name);"],
    ["src/host.ts", '/// <reference types="node" />'],
    ["src/pool.ts", ""],
  ])("in %s the line %s is refused", (path, line) => {
    expect(srcImportFindings(withFile(path, line))).toHaveLength(1);
  });

  test("no file imports itself by way of others", () => {
    expect(cycleFindings(shipped)).toEqual([]);
    expect(cycleFindings(withFile("src/command.ts", 'import type { Clock } from "./clock.ts";'))).toEqual([
      "src/clock.ts imports src/command.ts imports src/clock.ts",
    ]);
  });

  test("an adapter imports the boundary and its own files, and nothing else", () => {
    expect(adapterImportFindings(shipped, entries)).toEqual([]);
  });

  test.each([
    ["adapters/ioredis.ts", 'import { Redis } from "ioredis";'],
    ["adapters/ioredis.ts", 'import type { Redis } from "ioredis";'],
    ["adapters/upstash.ts", 'import { lockKeys } from "../src/keys.ts";'],
    ["adapters/upstash.ts", 'import { restClient } from "./rest.ts";'],
    ["adapters/rest-server.ts", 'import { restClient } from "./rest.ts";'],
    ["adapters/rest-server.ts", 'import { createServer } from "node:http";'],
    ["adapters/rest-batch.ts", 'import { Hono } from "hono";'],
    ["adapters/memory/index.ts", 'import { createLock } from "../../src/lock.ts";'],
    ["adapters/prometheus.ts", 'import { openTelemetryObserver } from "./opentelemetry.ts";'],
    ["adapters/rest.ts", 'import { catalogue } from "./measurements/catalogue.ts";'],
    ["adapters/measurements/labels.ts", 'import { prometheusObserver } from "../prometheus.ts";'],
  ])("in %s the line %s is refused", (path, line) => {
    expect(adapterImportFindings(withFile(path, line), entries)).toHaveLength(1);
  });

  test("examples, benches and the command line use the package by its name", () => {
    expect(userImportFindings(users, declared)).toEqual([]);
    const breaches = [
      'import { createLock } from "../../src/index.ts";',
      'import { serve } from "../lambda/serve.ts";',
      'import x from "not-declared";',
    ];
    for (const line of breaches) {
      expect(userImportFindings([readSource("examples/worker/index.ts", line)], declared)).toHaveLength(1);
    }
    const fine =
      'import "leasehold/rest"; import "node:fs"; import "hono/cors"; import "./own.ts"; import "../stampede/shop.ts";';
    expect(userImportFindings([readSource("examples/worker/index.ts", fine)], declared)).toEqual([]);
  });
});

describe("the package", () => {
  test("has an entry for every adapter, and a source for every entry", () => {
    expect(exportsFindings(shipped, manifest.exports)).toEqual([]);
    expect(exportsFindings(withFile("adapters/valkey.ts", ""), manifest.exports)).toEqual([
      "adapters/valkey.ts is reached by no entry",
    ]);
    const without = shipped.filter(({ path }) => path !== "adapters/upstash.ts");
    expect(exportsFindings(without, manifest.exports)).toEqual(['"./upstash" has no source']);
    const swapped = { ...manifest.exports, "./upstash": manifest.exports["./ioredis"] };
    expect(exportsFindings(shipped, swapped)).toHaveLength(1);
  });

  test("declares the clients that its adapters are for, as optional peers, and has no dependency", () => {
    expect(peerFindings(shipped, manifest)).toEqual([]);
    const without = shipped.filter(({ path }) => path !== "adapters/upstash.ts");
    expect(peerFindings(without, manifest)).toEqual(["@upstash/redis is a peer but not used"]);
    expect(peerFindings(withFile("adapters/x.ts", 'import "valkey";'), manifest)).toEqual([
      "valkey is used but no peer",
    ]);
    expect(peerFindings(shipped, { ...manifest, dependencies: { hono: "4" } })).toHaveLength(1);
    expect(peerFindings(shipped, { ...manifest, peerDependenciesMeta: {} })).toHaveLength(
      Object.keys(manifest.peerDependencies).length,
    );
  });
});

describe("the text", () => {
  test("reaches clocks, chance and runtimes by one door each", () => {
    expect(doorFindings(shipped)).toEqual([]);
  });

  test.each([
    "const now = Date.now();",
    "const at = globalThis.performance.now();",
    "const { performance } = globalThis;",
    "const { performance: timer } = globalThis;",
    "setTimeout(done, 5);",
    "globalThis['setTimeout'](done, 5);",
    "const id = source.randomUUID();",
    "const chance = Math.random();",
    "const signal = AbortSignal.timeout(50);",
    "const bytes = (globalThis as Globals).crypto;",
    "const { Deno } = globalThis as Globals;",
    "if (typeof process !== 'undefined') run();",
    "navigator.userAgent;",
  ])("elsewhere the line %s is refused", (line) => {
    expect(doorFindings([readSource("src/lock.ts", line)])).toHaveLength(1);
  });

  test("may name a property or a type's member as it likes", () => {
    const line = "interface Env { Date: number } const x = { process: 1 }; x.process; env.clock.Date; // Date.now()";
    expect(doorFindings([readSource("src/lock.ts", line)])).toEqual([]);
  });

  test("keeps within its ceilings", () => {
    expect(ceilingFindings(shipped)).toEqual([]);
    const lines = (count: number): string => "\n".repeat(count);
    expect(ceilingFindings([readSource("src/lock.ts", lines(201))])).toHaveLength(1);
    expect(ceilingFindings([readSource("src/lock.ts", lines(200))])).toEqual([]);
    expect(ceilingFindings([readSource("adapters/rest.ts", lines(121))])).toHaveLength(1);
    expect(ceilingFindings([readSource("src/scripts/acquire.ts", lines(61))])).toHaveLength(1);
    expect(ceilingFindings([readSource("src/lock.ts", `function f() {${lines(70)}}`)])).toEqual([
      "src/lock.ts: f has 71 lines: at most 70",
    ]);
    expect(
      ceilingFindings([readSource("src/lock.ts", `const o = { f() {${lines(70)}} }; (() => {${lines(70)}})();`)]),
    ).toHaveLength(2);
  });

  test("has no file or folder whose name says nothing", () => {
    const paths = [...shipped, ...users, ...sourcesUnder(root, ["test"])].map(({ path }) => path);
    expect(nameFindings(paths)).toEqual([]);
    expect(nameFindings(["src/utils.ts", "src/core/lock.ts", "test/types.test.ts", "src/command.ts"])).toHaveLength(3);
  });
});

describe("the size", () => {
  const lock = 'export { createLock } from "./src/index.ts";';
  const cache = 'export { createCache } from "./src/index.ts";';
  const redlock = 'export { createRedlock } from "./src/index.ts";';
  const rest = 'export { restClient } from "./adapters/rest.ts";';

  test.each([
    ["a lock", [lock, rest], 8_192],
    ["a cache", [cache, rest], 8_192],
    ["both", [lock, cache, rest], 13_312],
    ["a Redlock, a lock and a cache", [redlock, lock, cache, rest], 14_336],
  ])("%s with the REST client stays within its budget and needs no runtime's module", async (_, lines, budget) => {
    const text = await bundle(lines.join("\n"));
    expect(text.match(/["'`]node:|\brequire\b|\bimport\b/g)).toBeNull();
    expect(gzipSync(text, { level: 9 }).length).toBeLessThanOrEqual(budget);
  });

  test("a name that is not exported fails the build, so that no budget is kept by leaving out", async () => {
    await expect(bundle('export { createNothing } from "./src/index.ts";')).rejects.toThrow("createNothing");
  });
});

test.each([
  ["f();", 1],
  ["void f();", 0],
  ["await f();", 0],
])("the linter answers a promise in the line %s with %i", (line, status) => {
  const folder = mkdtempSync(join(tmpdir(), "leasehold-lint-"));
  try {
    for (const file of ["biome.json", ".gitignore"]) copyFileSync(join(root, file), join(folder, file));
    writeFileSync(join(folder, "breach.ts"), `export async function f(): Promise<void> {}\n${line}\n`);
    const biome = join(root, "node_modules/@biomejs/biome/bin/biome");
    expect(spawnSync(process.execPath, [biome, "lint", "."], { cwd: folder }).status).toBe(status);
  } finally {
    rmSync(folder, { recursive: true });
  }
});

/** As a project ships it: bundled and minified by esbuild, whose output is larger than that of Vite. */
async function bundle(contents: string): Promise<string> {
  const built = await build({
    stdin: { contents, resolveDir: root, loader: "js" },
    bundle: true,
    minify: true,
    format: "esm",
    target: "es2022",
    write: false,
    logLevel: "silent",
  });
  return built.outputFiles[0]?.text ?? "";
}
