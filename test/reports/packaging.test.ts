/** Public reports on what is published: how it is loaded, bundled and checked. Each test is named by the id of its report. */
import { execFile } from "node:child_process";
import { cp, mkdtemp, readdir, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { createContext, runInContext } from "node:vm";
import { build as esbuild } from "esbuild";
import { build as vite } from "vite";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { memoryClient } from "../../adapters/memory/index.ts";
import { projectWithPackage } from "../support/package.ts";
import { startRestServer } from "../support/redis.ts";

let project: string;

beforeAll(async () => {
  project = await mkdtemp(join(tmpdir(), "leasehold-packaging-"));
  await projectWithPackage(project);
  await cp(join(project, "node_modules/leasehold"), join(project, "node_modules/second-copy"), { recursive: true });
}, 60_000);
afterAll(() => rm(project, { recursive: true, force: true }));

const everyClient = ["rest", "upstash", "ioredis", "node-redis", "bun", "memory"];
const whole = ["", ...everyClient.map((name) => `/${name}`)]
  .map((entry) => `export * from "leasehold${entry}";`)
  .join("");

/** One script that sets the global `leasehold`, for a runtime that has nothing but the web's own globals. */
async function bundledForTheWeb(): Promise<string> {
  const { outputFiles, warnings } = await esbuild({
    stdin: { contents: whole, resolveDir: project },
    bundle: true,
    write: false,
    format: "iife",
    globalName: "leasehold",
    platform: "neutral",
    logLevel: "silent",
  });
  expect(warnings).toEqual([]);
  return outputFiles[0]?.text ?? "";
}

describe("H08 Node globals missing", () => {
  test("H08 a lock goes through its cycle where there is nothing but web globals, and an empty Deno", async () => {
    const server = await startRestServer(memoryClient());
    const { url, token } = server;
    const web = ["AbortController", "AbortSignal", "TextDecoder", "URL", "crypto", "fetch", "performance"];
    const timers = ["setTimeout", "clearTimeout"];
    const globals = Object.fromEntries([...web, ...timers].map((name) => [name, Reflect.get(globalThis, name)]));
    const context = createContext({ ...globals, Deno: {}, given: { url, token } });
    runInContext(await bundledForTheWeb(), context);
    const outcome: unknown = await runInContext(
      `(async () => {
        const lock = leasehold.createLock(leasehold.restClient(given));
        const lease = await lock.acquire("a");
        const refused = await lock.tryAcquire("a");
        await lease.extend();
        const released = await lease.release();
        const value = await leasehold.createCache(leasehold.restClient(given)).get("a", { freshMs: 1000 }, () => 42);
        return JSON.stringify([typeof process, refused, released, value]);
      })()`,
      context,
    );
    await server.stop();
    expect(outcome).toBe('["undefined",null,"released",42]');
  });
});

describe("I05 dynamic code", () => {
  test("I05 there is none in what is published", async () => {
    const dist = join(project, "node_modules/leasehold/dist");
    const files = (await readdir(dist, { recursive: true })).filter((path) => path.endsWith(".js"));
    expect(files.length).toBeGreaterThan(40);
    for (const file of files) {
      const text = await readFile(join(dist, file), "utf8");
      expect({ file, found: text.match(/(?<![\w.])eval\(|new Function\b|\bimport\(/g) }).toEqual({ file, found: null });
    }
  });

  test("I05 a bundle for the web builds without a warning", async () => {
    const warnings: unknown[] = [];
    const entry = join(project, "entry.js");
    await vite({
      root: project,
      configFile: false,
      logLevel: "silent",
      plugins: [
        {
          name: "entry",
          resolveId: (id: string): string | null => (id === entry ? entry : null),
          load: (id: string): string | null => (id === entry ? whole : null),
        },
      ],
      build: {
        write: false,
        rollupOptions: { input: entry, onwarn: (warning) => warnings.push(warning), preserveEntrySignatures: "strict" },
      },
    });
    expect(warnings).toEqual([]);
  });
});

describe("K02 ES modules and CommonJS", () => {
  const node = async (body: string, kind: string): Promise<unknown> => {
    const flags = [`--input-type=${kind}`, "--eval", body];
    const { stdout } = await promisify(execFile)(process.execPath, flags, { cwd: project });
    return JSON.parse(stdout);
  };

  test("K02 require() and import give the same named exports, and no default", async () => {
    const body = 'console.log(JSON.stringify(Object.keys(LOADED).filter((name) => name !== "__esModule").sort()))';
    const imported = await node(body.replace("LOADED", 'await import("leasehold")'), "module");
    expect(imported).toContain("createLock");
    expect(imported).not.toContain("default");
    expect(await node(body.replace("LOADED", 'require("leasehold")'), "commonjs")).toEqual(imported);
  });

  test("K02 the errors of one copy are recognised by another", async () => {
    const seen = await node(
      `
      import * as one from "leasehold";
      import * as other from "./node_modules/second-copy/dist/src/index.js";
      import { memoryClient } from "./node_modules/second-copy/dist/adapters/memory/index.js";
      const lock = one.createLock(memoryClient());
      await lock.acquire("a");
      const contended = await lock.acquire("a", { waitMs: 0 }).catch((error) => error);
      const reply = await memoryClient().execute(["NONE"]).catch((error) => error);
      console.log(JSON.stringify([
        contended instanceof other.LockError, other.isLockError(contended, "contended"), one.isReplyError(reply),
      ]));`,
      "module",
    );
    expect(seen).toEqual([false, true, true]);
  });
});

describe("K05 clients that nobody uses", () => {
  test("K05 none is installed, and every entry but the server bundles to a text that imports nothing", async () => {
    expect(await readdir(join(project, "node_modules"))).toEqual(["leasehold", "second-copy"]);
    const text = await bundledForTheWeb();
    expect(text.match(/\brequire\(|\bimport\b/g)).toBeNull();
  });
});
