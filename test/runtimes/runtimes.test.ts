/** Runs one scenario on each runtime, from the sources as they stand, against a real Redis over REST. */
import { execFile } from "node:child_process";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { afterAll, beforeAll, expect, test } from "vitest";
import manifest from "../../package.json" with { type: "json" };
import { describeRedis, type RunningRestServer, startRestRedis } from "../support/redis.ts";

const root = fileURLToPath(new URL("../..", import.meta.url));
const scenario = join(root, "test/runtimes/scenario.ts");
const env = { ...process.env, NO_COLOR: "1", DENO_NO_UPDATE_CHECK: "1", DO_NOT_TRACK: "1" };

function run(runtime: string, args: readonly string[]): Promise<{ stdout: string; stderr: string }> {
  return promisify(execFile)(join(root, "node_modules/.bin", runtime), args, { cwd: root, env, timeout: 60_000 });
}

/** The reverse of what a runtime needs: neither the environment nor files, and of the network only the one Redis. */
const deno = (url: string): string[] => ["run", "--no-lock", "--no-prompt", `--allow-net=${new URL(url).host}`];

describeRedis("a lock over REST", () => {
  let server: RunningRestServer;

  beforeAll(async () => {
    server = await startRestRedis();
  });
  afterAll(() => server.stop());

  test.each([
    ["node", () => []],
    ["deno", deno],
    ["bun", () => ["run"]],
  ] as const)(
    "keeps its word on %s, and keeps no process alive",
    async (runtime, flags) => {
      const { stdout } = await run(runtime, [...flags(server.url), scenario, server.url, server.token, runtime]);
      expect(JSON.parse(stdout)).toEqual({
        cycle: {
          contended: "contended",
          timedOut: "timeout",
          aborted: "aborted",
          refused: null,
          extended: true,
          outcomes: ["released", "already-released"],
          lost: "lost",
        },
        disposal: { growing: true },
        contention: { most: 1, total: 20 },
        renewal: { renewed: true, held: true },
      });
    },
    60_000,
  );
});

test("Deno compiles every entry with its own compiler and libraries", async () => {
  const entries = Object.values(manifest.exports).flatMap((target) =>
    typeof target === "string" ? [] : [target["leasehold-source"]],
  );
  await run("deno", ["check", "--no-lock", ...entries]);
}, 60_000);
