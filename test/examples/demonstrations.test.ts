/** Every example shows its stampede with one command: the figures are those promised, and so is the exit code. */
import { describe, expect, test } from "vitest";
import manifest from "../../package.json" with { type: "json" };
import { runCommand } from "../support/program.ts";
import { redisInstalled } from "../support/redis.ts";

const env = { ...process.env, NO_COLOR: "1" };

/** `npm start` has tests of its own. */
const demonstrations = [
  { script: "start:lambda", readers: 80, speaks: "http" },
  { script: "start:deno", readers: 200, speaks: "http" },
  { script: "start:bun", readers: 200, speaks: "tcp" },
  { script: "start:node", readers: 200, speaks: "tcp" },
];

describe.each(demonstrations)("npm run $script", ({ script, readers, speaks }) => {
  test.skipIf(speaks === "tcp" && !redisInstalled)(
    `shows 1 rebuild for ${readers} readers and no old value, and ends with 0`,
    async () => {
      const { code, stdout, stderr } = await runCommand("npm", ["run", "--silent", script], { env });
      expect({ code, stderr }, stdout).toEqual({ code: 0, stderr: "" });
      expect(stdout).toMatch(redisInstalled ? /^Redis: redis-server \d/ : /^Redis: memory/);
      const wave = (name: string, asked: number, rebuilds: number): RegExp =>
        new RegExp(`^${name} +${asked} +${rebuilds} `, "m");
      expect(stdout).toMatch(wave("cold, never built before", readers, 1));
      expect(stdout).toMatch(wave("warm", readers, 0));
      expect(stdout).toMatch(wave("invalidated while it is rebuilt", 2 * readers, 2));
      expect(stdout).toContain(`old values served after the invalidation: 0 of ${3 * readers} reads`);
    },
    60_000,
  );
});

test("every script that shows an example is tested", () => {
  const scripts = Object.keys(manifest.scripts).filter((name) => name.startsWith("start:"));
  expect(demonstrations.map(({ script }) => script).sort()).toEqual(scripts.sort());
});

test("an example that speaks TCP says that it needs a redis-server, and ends with 1", async () => {
  const demo = ["--conditions=leasehold-source", "examples/node-cache/demo.ts"];
  const { code, stdout, stderr } = await runCommand(process.execPath, demo, { env: { ...env, PATH: "/nowhere" } });
  expect({ code, stdout }).toEqual({ code: 1, stdout: "" });
  expect(stderr).toBe("Cannot start as there is no redis-server on the PATH: this example speaks TCP to it\n");
});
