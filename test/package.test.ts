/** Packs the package as it would be published, and uses it as others would: nothing here sees the sources. */
import { execFile } from "node:child_process";
import { cp, mkdir, mkdtemp, readdir, readFile, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, posix } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import manifest from "../package.json" with { type: "json" };
import { nodesOnPath } from "./support/nodes-on-path.ts";

const root = fileURLToPath(new URL("..", import.meta.url));
const modules = join(root, "node_modules");
const tsc = join(modules, "typescript/bin/tsc");
const entries = Object.keys(manifest.exports)
  .filter((entry) => entry !== "./package.json")
  .map((entry) => `leasehold${entry.slice(1)}`);

/** The one entry that is made of its peer: a Hono app. */
const needsPeer = "leasehold/rest-server";

let folder: string;
let tarball: string;
/** A project that has the packed package installed, and nothing else. */
let project: string;
let packed: string[];

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "leasehold-package-"));
  const staged = join(folder, "staged");
  for (const path of [
    ...new Set(manifest.files.map((path) => path.replace(/\/.*/, ""))),
    "package.json",
    "README.md",
    "LICENSE",
    "bin",
    "tsconfig.json",
    "tsconfig.build.json",
  ]) {
    if (path !== "dist") await cp(join(root, path), join(staged, path), { recursive: true });
  }
  await symlink(modules, join(staged, "node_modules"));
  expect(await compile(join(staged, "tsconfig.build.json"))).toBe("");
  await run(process.execPath, ["--conditions=leasehold-source", "bin/bundle.ts"], staged);
  await run("npm", ["pack", "--ignore-scripts", "--pack-destination", folder], staged);
  tarball = join(folder, `${manifest.name}-${manifest.version}.tgz`);

  project = join(folder, "project");
  await mkdir(join(project, "node_modules"), { recursive: true });
  await run("tar", ["-xzf", tarball, "-C", folder]);
  await cp(join(folder, "package"), join(project, "node_modules/leasehold"), { recursive: true });
  await writeFile(join(project, "package.json"), '{ "type": "module" }');
  packed = await readdir(join(folder, "package"), { recursive: true });
}, 120_000);

afterAll(() => rm(folder, { recursive: true, force: true }));

describe("the tarball", () => {
  test("passes publint --strict", async () => {
    const { stdout } = await run(process.execPath, [join(modules, "publint/src/cli.js"), "run", tarball, "--strict"]);
    expect(stdout).toContain("All good!");
  });

  test("passes attw: types and modules agree for every way to resolve ES modules", async () => {
    const attw = join(modules, "@arethetypeswrong/cli/dist/index.js");
    const { stdout } = await run(process.execPath, [attw, tarball, "--profile", "esm-only", "--format", "ascii"]);
    for (const entry of entries) expect(stdout).toContain(`"${entry}"`);
  }, 60_000);

  test("holds the sources, what is built of them, and the documents", () => {
    const tops = new Set(packed.map((path) => path.split("/")[0]));
    expect([...tops].sort()).toEqual(
      ["CHANGELOG.md", "LICENSE", "README.md", "adapters", "dist", "docs", "package.json", "src"].sort(),
    );
    expect(packed).toEqual(expect.arrayContaining(["docs/redlock.md", "docs/grafana-dashboard.json"]));
    expect(packed.filter((path) => /\.(test|spec)\.|\.env|\.(tgz|png)$/.test(path))).toEqual([]);
  });

  test("has every source that its source maps name", async () => {
    const maps = packed.filter((path) => path.endsWith(".map"));
    expect(maps.length).toBeGreaterThan(60);
    for (const path of maps) {
      const { sources } = JSON.parse(await readFile(join(folder, "package", path), "utf8")) as { sources: string[] };
      for (const source of sources) expect(packed).toContain(posix.join(posix.dirname(path), source));
    }
  });

  test("K04 names no ambient type of Node in its declarations, and no form that TypeScript before 5.7 lacks", async () => {
    const declarations = packed.filter((path) => path.endsWith(".d.ts"));
    expect(declarations.length).toBeGreaterThan(30);
    for (const path of declarations) {
      const text = await readFile(join(folder, "package", path), "utf8");
      expect({ path, found: text.match(/NodeJS\.|\bBuffer\b|["']node:|<reference|Uint8Array</g) }).toEqual({
        path,
        found: null,
      });
    }
  });
});

interface Consumer {
  readonly title: string;
  readonly files: readonly string[];
  readonly options: Readonly<Record<string, unknown>>;
  readonly peers?: readonly string[];
}

const bare = { lib: ["ES2022"], types: [] };
const consumers: readonly Consumer[] = [
  { title: "node16, no ambient types", files: ["bare.ts"], options: { ...bare, module: "node16" } },
  { title: "nodenext, no ambient types", files: ["bare.ts"], options: { ...bare, module: "nodenext" } },
  {
    title: "bundler, no ambient types",
    files: ["bare.ts"],
    options: { ...bare, module: "esnext", moduleResolution: "bundler" },
  },
  {
    title: "nodenext, await using",
    files: ["bare.ts", "disposal.ts"],
    options: { types: [], lib: ["ES2022", "ESNext.Disposable"], module: "nodenext" },
  },
  {
    title: "bundler, DOM, with hono",
    files: ["bare.ts", "web.ts", "disposal.ts", "server.ts"],
    options: {
      types: [],
      lib: ["ES2022", "ESNext.Disposable", "DOM", "DOM.Iterable"],
      module: "esnext",
      moduleResolution: "bundler",
    },
    peers: ["hono"],
  },
  {
    title: "nodenext, @types/node",
    files: ["bare.ts", "web.ts"],
    options: { lib: ["ES2022"], types: ["node"], module: "nodenext" },
    peers: ["@types/node", "undici-types"],
  },
  {
    title: "bundler, @cloudflare/workers-types",
    files: ["bare.ts", "web.ts"],
    options: {
      lib: ["ES2022"],
      types: ["@cloudflare/workers-types"],
      module: "esnext",
      moduleResolution: "bundler",
    },
    peers: ["@cloudflare/workers-types"],
  },
];

describe("K04 the declarations compile for a strict consumer without skipLibCheck", () => {
  test.each(consumers)(
    "$title",
    async ({ title, files, options, peers = [] }) => {
      const consumer = await projectWith(title.replaceAll(/\W+/g, "-"), peers);
      for (const file of files) await cp(join(root, "test/fixtures/consumers", file), join(consumer, file));
      const strict = {
        strict: true,
        exactOptionalPropertyTypes: true,
        skipLibCheck: false,
        noEmit: true,
        target: "es2022",
      };
      await writeFile(
        join(consumer, "tsconfig.json"),
        JSON.stringify({ compilerOptions: { ...strict, ...options }, files }),
      );
      expect(await compile(consumer)).toBe("");
    },
    60_000,
  );
});

const nodes = await nodesOnPath();

describe.each(nodes)("K05 on Node $version with no peer installed", ({ path }) => {
  const script = (body: string): Promise<{ stdout: string }> =>
    run(path, ["--input-type=module", "--eval", body], project);

  test.each(entries.filter((entry) => entry !== needsPeer))(
    "%s is imported without a look at a clock or a use of chance",
    async (entry) => {
      const { stdout } = await script(`
        const refuse = (name) => () => { throw new Error(name + " at import"); };
        Date.now = refuse("Date.now");
        performance.now = refuse("performance.now");
        Math.random = refuse("Math.random");
        crypto.getRandomValues = refuse("getRandomValues");
        for (const name of ["setTimeout", "setInterval", "setImmediate", "fetch"]) globalThis[name] = refuse(name);
        console.log(Object.keys(await import("${entry}")).join());
      `);
      expect(stdout.trim()).not.toBe("");
    },
  );

  test(`${needsPeer} names the peer that it is made of`, async () => {
    await expect(script(`await import("${needsPeer}")`)).rejects.toMatchObject({
      stderr: expect.stringContaining("Cannot find package 'hono'"),
    });
  });

  test("a lock works from the built files", async () => {
    const { stdout } = await script(`
      import { createLock } from "leasehold";
      import { memoryClient } from "leasehold/memory";
      const lock = createLock(memoryClient());
      const lease = await lock.acquire("a");
      console.log(await lock.tryAcquire("a"), lease.remaining() > 0, await lease.release());
    `);
    expect(stdout.trim()).toBe("null true released");
  });
});

describe("the command, from the tarball installed offline into an empty folder", () => {
  let empty: string;

  beforeAll(async () => {
    empty = join(folder, "empty");
    await mkdir(empty);
    await writeFile(join(empty, "package.json"), "{}");
    const quiet = ["--no-audit", "--no-fund", "--cache", join(folder, "no-cache")];
    await run("npm", ["install", "--offline", ...quiet, tarball], empty);
  }, 60_000);

  test("brings nothing else along", async () => {
    const names = (await readdir(join(empty, "node_modules"))).filter((name) => !name.startsWith("."));
    expect(names).toEqual(["leasehold"]);
  });

  test("is what npx runs", async () => {
    const { stdout } = await run("npx", ["--offline", "leasehold", "--version"], empty);
    expect(stdout).toBe(`${manifest.version}\n`);
  });

  test("names the licence of every package that is inside", async () => {
    const bin = join(empty, "node_modules/leasehold/dist/bin");
    expect((await readdir(bin)).sort()).toEqual(["LICENSES.md", "leasehold.cjs"]);
    const licences = await readFile(join(bin, "LICENSES.md"), "utf8");
    for (const name of ["hono", "@hono/node-server", "ioredis"]) expect(licences).toContain(`\n# ${name}\n\n`);
    expect(licences).toMatch(/MIT License[\s\S]+Permission is hereby granted/i);
  });

  test("writes no command, and so no password, where DEBUG asks its libraries for it", async () => {
    const command = join(empty, "node_modules/.bin/leasehold");
    const args = [command, "inspect", "job", "--json", "--node", "redis://:secret@127.0.0.1:1"];
    const options = { env: { ...process.env, DEBUG: "*" } };
    const ended = await promisify(execFile)(process.execPath, args, options).catch((error: unknown) => error);
    expect(ended).toMatchObject({ code: 3, stderr: "", stdout: expect.stringContaining("ECONNREFUSED") });
    expect(ended).not.toMatchObject({ stdout: expect.stringContaining("secret") });
  });

  test.each(nodes)("serves, inspects, examines and tests itself on Node $version", async ({ path }) => {
    const command = join(empty, "node_modules/.bin/leasehold");
    const served = execFile(path, [command, "serve", "--port", "0", "--json"]);
    const ended = new Promise((resolve) => served.once("close", resolve));
    try {
      const line = await new Promise<string>((resolve) => served.stdout?.once("data", (text) => resolve(String(text))));
      const { url }: { url: string } = JSON.parse(line);
      const env = { ...process.env, UPSTASH_REDIS_REST_URL: url, UPSTASH_REDIS_REST_TOKEN: "local" };
      const ask = (...args: string[]) => promisify(execFile)(path, [command, ...args], { cwd: empty, env });
      expect((await ask("inspect", "job")).stdout).toContain("Free: nobody holds it");
      expect((await ask("doctor")).stdout).toContain("0 errors, 0 warnings");
      expect((await ask("self-test")).stdout).toContain("Passed on 1 of 1 node");
    } finally {
      served.kill("SIGTERM");
    }
    expect(await ended).toBe(0);
  });
});

function run(command: string, args: readonly string[], cwd = root): Promise<{ stdout: string; stderr: string }> {
  return promisify(execFile)(command, args, { cwd });
}

/** What the compiler has to say of a project; nothing if all is well. */
async function compile(path: string): Promise<string> {
  return run(process.execPath, [tsc, "-p", path]).then(
    ({ stdout }) => stdout,
    (error: { stdout: string }) => error.stdout || String(error),
  );
}

/** A copy of the project with some packages of the development tree beside it. */
async function projectWith(name: string, peers: readonly string[]): Promise<string> {
  const path = join(folder, name);
  await cp(project, path, { recursive: true });
  for (const peer of peers) await cp(join(modules, peer), join(path, "node_modules", peer), { recursive: true });
  return path;
}
