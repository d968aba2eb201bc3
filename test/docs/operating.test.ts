/** Holds docs/operating.md to the command: what it says that is printed, is printed. */
import { afterAll, beforeAll, expect, test } from "vitest";
import { leasehold } from "../bin/run.ts";
import { startDurable } from "../doctor/five.ts";
import { describeRedis } from "../support/redis.ts";
import { textOf } from "../support/text-of.ts";
import { type Addresses, comparable, runLine, startIncidents } from "./operating.ts";

const page = textOf("docs/operating.md");
const blocks = [...page.matchAll(/^```console\n\$ (.+)\n([\s\S]*?)^```$/gm)].map(([, line = "", output = ""]) => ({
  line,
  output,
}));

describeRedis("docs/operating.md", () => {
  const stack = new AsyncDisposableStack();
  let addresses: Addresses;

  beforeAll(async () => {
    addresses = await startIncidents(stack);
  }, 60_000);
  afterAll(() => stack.disposeAsync());

  test("has a command and its output for each incident", () => {
    expect(blocks.length).toBeGreaterThanOrEqual(3);
    expect(page.match(/^```console\n/gm)).toHaveLength(blocks.length);
  });

  test("its user may lock, inspect and be tested, and may ask doctor's questions once it is allowed to", async () => {
    const server = await startDurable(stack);
    const allow = async (line: string): Promise<void> => {
      await server.redis.call(...(line.split(" ") as [string, ...string[]]));
    };
    const [user = "", more = ""] = [...page.matchAll(/^ACL SETUSER .+$/gm)].map(([line]) => line);
    const node = ["--node", server.url.replace("//", "//lock:password@")];
    await allow(user);
    expect((await leasehold(["inspect", "job", ...node])).stdout).toContain("Free");
    expect((await leasehold(["self-test", ...node])).stdout).toContain("Passed on 1 of 1");
    expect((await leasehold(["doctor", ...node])).stdout).toContain("0 errors, 0 warnings, 5 unknown");
    await allow(more);
    expect((await leasehold(["doctor", ...node])).stdout).toContain("0 errors, 0 warnings, 0 unknown");
    expect((await leasehold(["inspect", "job", ...node])).stdout).toContain("Free");
  });

  test.each(blocks)("$line prints what the page says", async ({ line, output }) => {
    const printed = await runLine(line, addresses);
    expect(comparable(printed)).toBe(comparable(output));
  });
});
