/** What the command line says of itself, and of what is wrong with what was given to it. */
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import manifest from "../../package.json" with { type: "json" };
import { leasehold } from "./run.ts";

const secret = "s3cr3t-that-must-not-be-shown";

describe("leasehold", () => {
  test("tells its commands, and ends with 2 where none was given", async () => {
    const [asked, empty] = await Promise.all([leasehold(["--help"]), leasehold([])]);
    expect(asked).toMatchObject({ code: 0, stderr: "" });
    for (const name of ["inspect NAME", "doctor", "self-test", "serve"]) expect(asked.stdout).toContain(`  ${name}`);
    expect(empty).toMatchObject({ code: 2, stdout: asked.stdout });
  });

  test.each(["inspect", "doctor", "self-test", "serve"])(
    "%s --help has its options, codes and examples",
    async (name) => {
      const { code, stdout, stderr } = await leasehold([name, "--help"]);
      expect({ code, stderr }).toEqual({ code: 0, stderr: "" });
      expect(stdout).toMatch(new RegExp(`^leasehold ${name}`));
      for (const part of ["--json", "Ends with\n  0 ", "Examples\n  "]) expect(stdout).toContain(part);
      for (const line of stdout.split("\n")) expect(line.length).toBeLessThanOrEqual(105);
    },
  );

  test("tells its version", async () => {
    expect(await leasehold(["--version"])).toMatchObject({ code: 0, stdout: `${manifest.version}\n`, stderr: "" });
  });

  test.each<[string[], RegExp]>([
    [["unlock"], /^There is no such command/],
    [["doctor", "--frobnicate"], /^Cannot run doctor: Unknown option '--frobnicate'$/],
    [["doctor", `--tokne=${secret}`], /^Cannot run doctor: Unknown option '--tokne'$/],
    [["inspect", "job", "--token", secret, "--node", "redis://x"], /^Cannot run inspect: Unknown option '--token'$/],
    [["doctor", "--node"], /^Cannot run doctor: Option '--node <value>' argument missing$/],
    [["doctor", `redis://:${secret}@127.0.0.1`], /^Cannot run doctor with a name: --node names its nodes$/],
    [["inspect", "--node", "redis://127.0.0.1"], /^Cannot inspect 0 locks: give one NAME$/],
    [["inspect", "a", `redis://:${secret}@x`], /^Cannot inspect 2 locks: give one NAME$/],
    [["doctor"], /^Cannot go on without a node: give --node URL, or set UPSTASH_REDIS_REST_URL or REDIS_URL$/],
    [["doctor", "--node", `:${secret}@nowhere`], /^Cannot use node 1 as it is not a URL/],
    [
      ["doctor", "--node", `ftp://u:${secret}@x`],
      /^Cannot use node 1 as it is neither a redis:\/\/ nor an https:\/\/ URL$/,
    ],
    [["doctor", "--node", `https://u:${secret}@x`], /^Cannot use node 1 as its URL holds credentials or a query/],
    [["doctor", "--node", `https://x/?_token=${secret}`], /^Cannot use node 1 as its URL holds credentials or a query/],
    [["doctor", "--node", "redis://x/abc"], /^Cannot use the node x as its path must be a database's number$/],
    [["doctor", "--node", "https://x"], /^Cannot go on without a token as UPSTASH_REDIS_REST_TOKEN is empty/],
    [["doctor", "--node", "https://x", "--token-env", "NO_SUCH"], /^Cannot go on without a token as NO_SUCH is empty/],
    [
      ["doctor", "--node", "https://x", "--token-env", secret],
      /^Cannot go on without a token as what --token-env names/,
    ],
    [
      ["doctor", "--node", "https://x", "--token-file", secret],
      /^Cannot read token file 1 as ENOENT: --token-file takes a path$/,
    ],
    [["doctor", "--node", "https://x", "--token-file", "a", "--token-env", "B"], /^Cannot take tokens from both/],
    [
      ["doctor", "--node", "https://x", "--token-env", "A", "--token-env", "B"],
      /^Cannot use 2 of --token-env for 1 REST nodes/,
    ],
    [["doctor", "--node", "redis://x", "--lease", "ten"], /^Cannot use --lease as it must be a number$/],
    [["doctor", "--node", "redis://x", "--lease", "1"], /^Cannot use leaseMs as it must be an integer of ms from 10 /],
    [
      ["inspect", "job", "--node", "redis://x", "--quorum", "2"],
      /^Cannot use quorum as it must be an integer from 1 to 1/,
    ],
    [["inspect", "", "--node", "redis://x"], /^Cannot use name as it must be non-empty and well-formed/],
    [["serve", "extra"], /^Cannot serve that/],
    [["serve", "--port", "70000"], /^Cannot use --port as it must be an integer from 0 to 65535$/],
    [["serve", "--redis", "redis://x"], /^Cannot serve a real Redis without a token/],
    [
      ["serve", "--redis", "https://x", "--token", secret],
      /^Cannot use --redis as it must be a redis:\/\/ or rediss:\/\/ URL$/,
    ],
    [["serve", "--host", "0.0.0.0"], /^Cannot serve on 0\.0\.0\.0 without a token/],
    [["serve", "--token", " "], /^Cannot use --token as it is empty$/],
  ])("%j ends with 2, says what is wrong, and repeats no secret", async (args, message) => {
    const { code, stdout, stderr } = await leasehold(args);
    expect(code).toBe(2);
    expect(stdout).toBe("");
    expect(stderr.trimEnd()).toMatch(message);
    expect(stderr).not.toContain(secret);
    expect(stderr.trimEnd().split("\n")).toHaveLength(1);
  });

  test("with --json a mistake is JSON as well", async () => {
    const { code, stdout, stderr } = await leasehold(["doctor", "--json"]);
    expect({ code, stderr }).toEqual({ code: 2, stderr: "" });
    expect(JSON.parse(stdout)).toEqual({
      error: { code: "usage", message: expect.stringContaining("without a node") },
    });
  });

  test("names no address to a TLS server, which takes names alone: Node would warn of it", async () => {
    const { code, stderr } = await leasehold(["inspect", "a", "--node", "rediss://127.0.0.1:1"]);
    expect({ code, stderr }).toEqual({ code: 3, stderr: "" });
  });

  test("reads tokens from files, one for all or one for each, and an empty one is a mistake", async () => {
    const folder = await mkdtemp(join(tmpdir(), "leasehold-bin-"));
    try {
      const empty = join(folder, "empty");
      await writeFile(empty, "\n");
      const { code, stderr } = await leasehold(["doctor", "--node", "https://x", "--token-file", empty]);
      expect(code).toBe(2);
      expect(stderr).toContain("is empty");
    } finally {
      await rm(folder, { recursive: true });
    }
  });
});
