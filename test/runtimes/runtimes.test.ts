/** Runs one scenario on each runtime, from the sources as they stand and from the built package, against real Redis over REST. */
import { execFile } from "node:child_process";
import { cp, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { build } from "esbuild";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import manifest from "../../package.json" with { type: "json" };
import { node22 } from "../support/node-22.ts";
import { nodesOnPath } from "../support/nodes-on-path.ts";
import { projectWithPackage } from "../support/package.ts";
import { describeRedis, type RunningRestServer, startRestRedis } from "../support/redis.ts";
import { expected } from "./scenario.ts";

const root = fileURLToPath(new URL("../..", import.meta.url));
const env = { ...process.env, NO_COLOR: "1", DENO_NO_UPDATE_CHECK: "1", DO_NOT_TRACK: "1" };
const fromSource = "--conditions=leasehold-source";
const bin = (name: string): string => join(root, "node_modules/.bin", name);

function run(program: string, args: readonly string[], cwd: string): Promise<{ stdout: string; stderr: string }> {
  return promisify(execFile)(program, args, { cwd, env, timeout: 60_000 });
}

const older = await node22();
const both = ["the sources", "the built package"];
/** It takes no types, and so no sources. */
const oldest = (await nodesOnPath()).find(({ version }) => version.startsWith("20."));
/** What runs the scenario, and with which flags. Deno may reach the one host only: no files, no environment. */
const runtimes: readonly { name: string; program: string; flags: readonly string[]; flavours?: string[] }[] = [
  { name: "Node", program: process.execPath, flags: [] },
  ...("path" in older ? [{ name: "Node", program: older.path, flags: [] }] : []),
  ...(oldest ? [{ name: "Node", program: oldest.path, flags: [], flavours: both.slice(1) }] : []),
  { name: "Deno", program: bin("deno"), flags: ["run", "--no-lock", "--no-prompt", "--allow-net=127.0.0.1"] },
  { name: "Bun", program: bin("bun"), flags: [] },
];
const versioned = await Promise.all(
  runtimes.map(async (runtime) => {
    const { stdout } = await run(runtime.program, ["--version"], root);
    return { ...runtime, title: `${runtime.name} ${/\d+\.\d+\.\d+/.exec(stdout)}` };
  }),
);
console.log(`Runtimes: ${versioned.map(({ title }) => title).join(", ")}`);
if ("missing" in older) {
  const { missing, mustBeThere } = older;
  test.skipIf(!mustBeThere)(`Node 22 is there (${missing})`, () => expect.fail(missing));
}

describeRedis("a lock and a cache over REST", () => {
  const servers: RunningRestServer[] = [];
  let project: string;

  beforeAll(async () => {
    project = await mkdtemp(join(tmpdir(), "leasehold-runtimes-"));
    await projectWithPackage(project);
    const entryPoints = [join(root, "test/runtimes/main.ts")];
    await build({ entryPoints, bundle: true, packages: "external", format: "esm", outfile: join(project, "main.js") });
    for (let count = 0; count < 3; count += 1) servers.push(await startRestRedis());
  }, 60_000);
  afterAll(async () => {
    for (const server of servers) await server.stop();
    await rm(project, { recursive: true, force: true });
  });

  describe.each(versioned)("on $title", ({ title, program, flags, flavours = both }) => {
    test.each(flavours)(
      "%s keep their word, and keep no process alive",
      async (flavour) => {
        const [cwd, more, main] =
          flavour === "the sources" ? [root, [fromSource], "test/runtimes/main.ts"] : [project, [], "main.js"];
        const stage = [String(servers[0]?.token), `${title} ${flavour}`, ...servers.map(({ url }) => url)];
        const { stdout, stderr } = await run(program, [...flags, ...more, main, ...stage], cwd);
        expect(JSON.parse(stdout)).toEqual(expected);
        expect(stderr).not.toContain("Uncaught");
      },
      60_000,
    );
  });

  describe("J03 what Deno finds left behind", () => {
    const denoTest = (file: string): Promise<{ stdout: string; stderr: string }> => {
      const flags = ["--no-lock", "--no-prompt", "--no-check", "--allow-net=127.0.0.1"];
      const sanitizers = ["--trace-leaks", "--sanitize-ops", "--sanitize-resources"];
      return run(
        bin("deno"),
        ["test", ...flags, ...sanitizers, file, "--", String(servers[0]?.url), String(servers[0]?.token)],
        project,
      );
    };

    test("J03 nothing, by a lock, a wait, an abort or a cache", async () => {
      const file = join(project, "leaks.ts");
      await cp(join(root, "test/runtimes/deno/leaks.ts"), file);
      expect((await denoTest(file)).stdout).toContain("5 passed | 0 failed");
    }, 60_000);

    test("J03 a lease that is not released, so that there is something to find", async () => {
      const file = join(project, "leaky.ts");
      await writeFile(
        file,
        `import { createLock } from "leasehold";
        import { restClient } from "leasehold/rest";
        const lock = createLock(restClient({ url: Deno.args[0], token: Deno.args[1] }));
        Deno.test("leaky", async () => void (await lock.acquire("leaks:left-behind")).signal);`,
      );
      await expect(denoTest(file)).rejects.toMatchObject({ stdout: expect.stringContaining("Leaks detected") });
    }, 60_000);
  });
});

test("Deno compiles every entry with its own compiler and libraries", async () => {
  const entries = Object.values(manifest.exports).flatMap((target) =>
    typeof target === "string" ? [] : [target["leasehold-source"]],
  );
  await run(bin("deno"), ["check", "--no-lock", ...entries], root);
}, 60_000);
