import { mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { type Account, faults, printed } from "../../../examples/task-coordinator/demo/account.ts";
import { runCommand } from "../../support/program.ts";
import { describeRedis } from "../../support/redis.ts";

const program = ["--conditions=leasehold-source", "examples/task-coordinator/demo/main.ts"];

/** The rows of the account. */
function rowsOf(output: string): Record<string, number> {
  const rows = output.split("\n").map((line) => /^(.+?) {2,}([\d.]+)$/.exec(line) ?? []);
  return Object.fromEntries(rows.flatMap(([, title, value]) => (title ? [[title, Number(value)]] : [])));
}

describeRedis("npm run coordinator", () => {
  test("does 200 tasks exactly once, with a worker killed, one frozen, and Redis restarted, all in mid-task", async () => {
    const { code, stdout, stderr } = await runCommand("npm", ["run", "--silent", "coordinator"]);
    expect(stderr).toBe("");
    expect(code, stdout).toBe(0);
    expect(stdout).toMatch(/worker-\d-(http|tcp) was killed with -9 in the midst of task-\d{3}/);
    expect(stdout).toMatch(
      /worker-\d-(http|tcp) was frozen in the midst of (task-\d{3})\n(.*\n)*.*\2 was done by another/,
    );
    expect(stdout).toMatch(/Redis was killed with -9, and starts again/);
    const rows = rowsOf(stdout);
    expect(rows["done exactly once, as the ledger has it"]).toBe(200);
    expect(rows["completed, as the queue has it"]).toBe(200);
    expect(rows["put in line twice, and taken once"]).toBe(20);
    expect(rows.attempts).toBeGreaterThanOrEqual(212);
    expect(stdout).toContain("Every task was done exactly once.");
  }, 100_000);

  test("fails where the resource takes every write: the frozen worker's task is done twice", async () => {
    const { code, stdout, stderr } = await runCommand(process.execPath, [...program, "--unfenced", "--tasks", "60"]);
    expect(code).toBe(1);
    const [, task] = /was frozen in the midst of (task-\d{3})/.exec(stdout) ?? [];
    expect(stderr).toContain(`Wrong: ${task} was done 2 times`);
    expect(stderr).toContain("Wrong: the frozen worker's write was not refused");
  }, 100_000);

  test("serves its page until Ctrl-C, and then leaves nothing behind", async () => {
    const temporary = mkdtempSync(join(tmpdir(), "leasehold-demo-"));
    const pages: Promise<unknown>[] = [];
    const onOutput = (text: string, kill: (signal: "SIGINT") => void): void => {
      const [, url] = /^Page: (\S+)$/m.exec(text) ?? [];
      if (url === undefined || pages.length > 0 || !text.includes("Ctrl-C ends it")) return;
      const page = fetch(`${url}/api/state`).then((response) => response.json());
      pages.push(page.finally(() => kill("SIGINT")));
    };
    const ended = await runCommand(
      process.execPath,
      [...program, "--serve"],
      { env: { ...process.env, TMPDIR: temporary } },
      onOutput,
    );
    expect(await Promise.all(pages)).toEqual([expect.objectContaining({ queue: "jobs" })]);
    expect([ended.code, ended.stderr]).toEqual([0, ""]);
    expect(readdirSync(temporary)).toEqual([]);
    rmSync(temporary, { recursive: true });
  }, 60_000);

  test("leaves nothing behind when it is broken off in the midst of the show, with a worker frozen", async () => {
    const temporary = mkdtempSync(join(tmpdir(), "leasehold-demo-"));
    const onOutput = (text: string, kill: (signal: "SIGINT") => void): void => {
      if (text.includes("was frozen")) kill("SIGINT");
    };
    const ended = await runCommand(
      process.execPath,
      [...program, "--tasks", "30"],
      { env: { ...process.env, TMPDIR: temporary } },
      onOutput,
    );
    expect([ended.code, ended.stderr]).toEqual([130, ""]);
    expect(readdirSync(temporary)).toEqual([]);
    const [, page = ""] = /^Page: (\S+)$/m.exec(ended.stdout) ?? [];
    await expect(fetch(page)).rejects.toThrow("fetch failed");
    rmSync(temporary, { recursive: true });
  }, 60_000);
});

test("without a redis-server the coordinator says what is missing", async () => {
  const ended = await runCommand(process.execPath, program, { env: { PATH: "" } });
  expect(ended).toEqual({
    code: 1,
    stdout: "",
    stderr: "Cannot start redis-server: install it, or put it on the PATH\n",
  });
});

test.each([
  ["--times", "0"],
  ["--tasks", "many"],
  ["--port", "-1"],
])("with %s %s the coordinator says what is wrong, and does not end as one that went well", async (option, value) => {
  const { code, stdout, stderr } = await runCommand(process.execPath, [...program, `${option}=${value}`]);
  expect({ code, stdout }).toEqual({ code: 2, stdout: "" });
  expect(stderr).toMatch(`Cannot use ${option} as it must be a whole number from`);
});

describe("the account", () => {
  const right: Account = {
    tasks: 2,
    completed: 2,
    entries: new Map([
      ["task-1", { fence: 5, made: 1 }],
      ["task-2", { fence: 6, made: 1 }],
    ]),
    attempts: 4,
    retried: 0,
    recovered: 2,
    refusedWrites: 1,
    refusedReports: 1,
    failed: 0,
    repeats: 1,
    repeatsCreated: 0,
    seconds: 1.25,
  };

  test("is right when it is", () => {
    expect(faults(right)).toEqual([]);
    expect(rowsOf(printed(right))).toMatchObject({
      tasks: 2,
      "done exactly once, as the ledger has it": 2,
      attempts: 4,
    });
  });

  test.each<[string, Partial<Account>]>([
    ["task-1 was done 2 times", { entries: new Map([...right.entries, ["task-1", { fence: 5, made: 2 }]]) }],
    ["task-1 was done 0 times", { entries: new Map([...right.entries, ["task-1", { fence: 5, made: 0 }]]) }],
    ["1 of 2 tasks reached the ledger", { entries: new Map([["task-1", { fence: 5, made: 1 }]]) }],
    ["1 of 2 tasks are completed", { completed: 1 }],
    ["1 tasks have failed for good", { failed: 1 }],
    ["1 tasks were put in line twice", { repeatsCreated: 1 }],
    ["1 tasks were put back instead of the 2 whose worker was lost, or more", { recovered: 1 }],
    ["3 attempts are too few", { attempts: 3 }],
    ["the frozen worker's write was not refused", { refusedWrites: 0 }],
    ["the frozen worker's report was not refused", { refusedReports: 0 }],
  ])("is wrong with: %s", (fault, change) => {
    expect(faults({ ...right, ...change })).toEqual([fault]);
  });
});
