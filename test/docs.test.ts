/** Holds the documents to the code: every snippet compiles and runs, and what they list is what there is. */
import { execFile } from "node:child_process";
import { existsSync, readdirSync } from "node:fs";
import { copyFile, mkdir, mkdtemp, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import manifest from "../package.json" with { type: "json" };
import { sourcesUnder } from "./architecture/source.ts";
import { type Snippet, snippetsOf } from "./docs/snippets.ts";
import { describeRedis, redisInstalled, startRestRedis } from "./support/redis.ts";
import { textOf } from "./support/text-of.ts";

const run = promisify(execFile);
const root = fileURLToPath(new URL("..", import.meta.url));
const bun = join(root, "node_modules/.bin/bun");
const bunTypes = "test/support/bun.d.ts";
const pages = readdirSync(join(root, "docs")).flatMap((file) => (file.endsWith(".md") ? `docs/${file}` : []));
const guides = readdirSync(join(root, "examples"))
  .map((name) => `examples/${name}/README.md`)
  .filter((path) => existsSync(join(root, path)));
const documents = ["README.md", "CONTRIBUTING.md", "CHANGELOG.md", ...pages, ...guides];
const sources = sourcesUnder(root, ["src", "adapters"]).map(({ path }) => path);
const snippets = [...documents, ...sources].flatMap((path) => snippetsOf(path, textOf(path)));
/** Without what only lines up the columns of its tables. */
const readme = textOf("README.md").replace(/ {2,}\|/g, " |");

test("snippets are found in the README and in the doc comments of every entry", () => {
  const places = snippets.map(({ name }) => name);
  for (const path of ["README.md", ...entryFiles()]) {
    const own = path === "src/index.ts" ? "src/lock.ts" : path;
    expect(
      places.some((place) => place.startsWith(`${own}:`)),
      `a snippet in ${own}`,
    ).toBe(true);
  }
});

test("every function and value of the main entry has an example in its doc comment", () => {
  const without: string[] = [];
  for (const [, list = "", file = ""] of textOf("src/index.ts").matchAll(/^export \{([^}]*)\} from "\.\/(.*)";$/gm)) {
    const names = list.split(",").map((name) => name.trim());
    for (const name of names.filter((one) => one !== "" && !one.startsWith("type "))) {
      const declared = new RegExp(
        `(?:/\\*\\*((?:(?!\\*/)[^])*)\\*/\n)?export (?:async function|function|class|const) ${name}\\b`,
      );
      const [, comment = ""] = declared.exec(textOf(`src/${file}`)) ?? [];
      if (!comment.includes("```ts")) without.push(name);
    }
  }
  expect(without).toEqual([]);
});

let folder: string;
let env: Record<string, string> = {};
const cleaning: (() => Promise<unknown>)[] = [];

beforeAll(async () => {
  folder = await snippetProject();
  cleaning.push(() => rm(folder, { recursive: true, force: true }));
  if (!redisInstalled) return;
  const server = await startRestRedis();
  cleaning.push(server.stop);
  // What a snippet takes from its environment leads to that Redis.
  env = {
    UPSTASH_REDIS_REST_URL: server.url,
    UPSTASH_REDIS_REST_TOKEN: server.token,
    REDIS_URL: `redis://127.0.0.1:${server.redis.port}`,
  };
});

afterAll(async () => {
  for (const clean of cleaning.reverse()) await clean();
});

test("all snippets compile, by the package's name", async () => {
  const tsc = join(root, "node_modules/typescript/bin/tsc");
  const found = await run(process.execPath, [tsc, "-p", folder]).then(
    ({ stdout }) => stdout,
    (error: { stdout: string }) => error.stdout,
  );
  expect(found).toBe("");
}, 60_000);

describeRedis("against a real Redis, over REST and TCP, the snippet", () => {
  test.each(snippets)("$name runs, and prints what it says", async (snippet) => {
    const { stdout } = await runSnippet(fileOf(snippet), /from "bun"/.test(snippet.code) ? bun : undefined);
    const printed = stdout.trimEnd().split("\n");
    for (const [index, said] of snippet.prints.entries()) {
      if (said !== undefined) expect(printed[index]?.replaceAll("'", '"')).toBe(said.replaceAll("'", '"'));
    }
  });

  test("that throws fails", async () => {
    const [wrong] = snippetsOf("x.md", 'Text\n```ts\nimport { createLock } from "leasehold";\ncreateLock(1);\n```\n');
    expect(wrong?.name).toBe("x.md:3");
    await writeFile(join(folder, "wrong.ts"), wrong?.code ?? "");
    await expect(runSnippet("wrong.ts")).rejects.toMatchObject({ stderr: expect.stringContaining("LockError") });
  });
});

describe("the README", () => {
  test("names every entry, its factory, and no other", () => {
    const named = new Set([...readme.matchAll(/\bleasehold\/[a-z-]+/g)].map(([name]) => name));
    const entries = Object.keys(manifest.exports).filter((entry) => entry !== "." && entry !== "./package.json");
    expect([...named].sort()).toEqual(entries.map((entry) => `leasehold${entry.slice(1)}`).sort());
  });

  test("lists every error code, and no other", () => {
    const declared = /LockErrorCode = ([^;]+);/.exec(textOf("src/errors.ts"))?.[1] ?? "";
    const table = readme.slice(readme.indexOf("| code |")).split("\n\n")[0] ?? "";
    const codes = (text: string, quoted: RegExp): string[] =>
      [...text.matchAll(quoted)].map(([, code = ""]) => code).sort();
    expect(codes(table, /^\| `([a-z-]+)` \|/gm)).toEqual(codes(declared, /"([a-z-]+)"/g));
    expect(codes(declared, /"([a-z-]+)"/g).length).toBeGreaterThan(5);
  });

  test("names only npm scripts that there are", () => {
    const builtIn = ["ci", "cit", "pack", "install"];
    for (const text of documents.map(textOf)) {
      const named = [...text.matchAll(/\bnpm (?:run )?([a-z:]+)/g)].map(([, name = ""]) => name);
      expect(named.filter((name) => !builtIn.includes(name) && !(name in manifest.scripts))).toEqual([]);
    }
  });
});

test.each(documents)("%s links only to files and headings that exist", (path) => {
  const links = [...textOf(path).matchAll(/\]\(([^)\s]+)\)/g)].map(([, target = ""]) => target);
  for (const link of links.filter((target) => !/^https?:/.test(target))) {
    const [file = "", heading] = link.split("#");
    const target = file === "" ? path : join(dirname(path), file);
    expect(existsSync(join(root, target)), `${link} in ${path}`).toBe(true);
    if (heading !== undefined) expect(headingsOf(textOf(target)), `${link} in ${path}`).toContain(heading);
  }
});

test.each(documents)("%s has diagrams that Mermaid can read: a label ends at a colon or a semicolon", (path) => {
  for (const [, diagram = ""] of textOf(path).matchAll(/^```mermaid\n([\s\S]*?)^```$/gm)) {
    for (const line of diagram.split("\n")) expect(line).toMatch(/^[^:;]*(: [^:;]*)?$/);
  }
});

function headingsOf(text: string): string[] {
  return [...text.matchAll(/^#+ (.+)$/gm)].map(([, title = ""]) =>
    title
      .toLowerCase()
      .replace(/[^\w\s-]/g, "")
      .replaceAll(" ", "-"),
  );
}

function entryFiles(): string[] {
  return Object.values(manifest.exports).flatMap((target) =>
    typeof target === "string" ? [] : [target["leasehold-source"].slice(2)],
  );
}

function fileOf({ name }: Snippet): string {
  return `${name.replaceAll(/[^\w-]+/g, "-")}.ts`;
}

/** A project with the package and the peers linked into it, and each snippet as a file. */
async function snippetProject(): Promise<string> {
  const project = await mkdtemp(join(tmpdir(), "leasehold-docs-"));
  const types = ["@types/node", "undici-types", "@cloudflare/workers-types"];
  const packages = [...Object.keys(manifest.peerDependencies), "@hono/node-server", ...types];
  for (const name of [...packages, manifest.name]) {
    const link = join(project, "node_modules", name);
    await mkdir(dirname(link), { recursive: true });
    await symlink(name === manifest.name ? root : join(root, "node_modules", name), link);
  }
  for (const snippet of snippets) await writeFile(join(project, fileOf(snippet)), snippet.code);
  await copyFile(join(root, bunTypes), join(project, "bun.d.ts"));
  const compilerOptions = {
    target: "es2022",
    lib: ["ES2023", "ESNext.Disposable", "DOM", "DOM.Iterable"],
    types: ["node"],
    module: "nodenext",
    moduleDetection: "force",
    customConditions: ["leasehold-source"],
    allowImportingTsExtensions: true,
    strict: true,
    exactOptionalPropertyTypes: true,
    noUncheckedIndexedAccess: true,
    skipLibCheck: true,
    noEmit: true,
  };
  const files = ["bun.d.ts", ...snippets.map(fileOf)];
  await writeFile(join(project, "package.json"), '{ "type": "module" }');
  await writeFile(join(project, "tsconfig.json"), JSON.stringify({ compilerOptions, files }));
  return project;
}

/** In Node, or in Bun where the snippet is for Bun alone. */
function runSnippet(file: string, runtime = process.execPath): Promise<{ stdout: string }> {
  const runner = join(root, "test/docs/run-snippet.ts");
  return run(runtime, ["--conditions=leasehold-source", runner, join(folder, file)], {
    env: { PATH: process.env.PATH, NO_COLOR: "1", ...env },
    timeout: 15_000,
  });
}
