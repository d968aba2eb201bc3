/** The command on five real servers and on troubled ones: what it prints, and how it ends. */
import { spawnSync } from "node:child_process";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { createServer, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test, vi } from "vitest";
import { ioredisClient } from "../../adapters/ioredis.ts";
import type { CommandClient } from "../../src/command.ts";
import type { Finding } from "../../src/doctor.ts";
import { createRedlock } from "../../src/redlock.ts";
import { acquireScript } from "../../src/scripts/acquire.ts";
import { type Sound, startDurable, startFive, startPlain, startReplica } from "../doctor/five.ts";
import { shortened } from "../support/one-redis.ts";
import { runCommand } from "../support/program.ts";
import { describeRedis, listen, startRestServer } from "../support/redis.ts";
import { startShiftedClock } from "../support/shifted-clock.ts";
import { type Ended, leasehold, leaseholdJson, nodesOf, start } from "./run.ts";

// Each command is a process of its own, which takes seconds to start on a machine that is busy with others.
vi.setConfig({ testTimeout: 60_000, hookTimeout: 60_000 });

const stack = new AsyncDisposableStack();
let own: AsyncDisposableStack;
let five: Sound[];
let urls: string[];
/** Nothing listens there. */
const nowhere = "redis://127.0.0.1:1";

/** A port that takes connections and never says a word. */
async function startSilence(): Promise<string> {
  const sockets = new Set<Socket>();
  const server = createServer((socket) => void sockets.add(socket));
  const port = await listen(server);
  own.defer(() => {
    for (const socket of sockets) socket.destroy();
    server.close();
  });
  return `redis://127.0.0.1:${port}`;
}

/** Acquires on all five, and waits until all have granted. */
async function holdEverywhere(name: string) {
  const clients = five.map(({ redis }) => ioredisClient(redis));
  const lease = await createRedlock(clients, { leaseMs: 60_000 }).acquire(name);
  await expect
    .poll(async () => Promise.all(five.map(({ redis }) => redis.get(lease.key))))
    .toEqual(Array(5).fill(lease.token));
  return lease;
}

function expectPlain({ stdout, stderr }: Ended): void {
  expect(stdout + stderr).not.toContain("\u001b");
}

describeRedis("leasehold", () => {
  beforeAll(async () => {
    five = await startFive(stack);
    urls = five.map(({ url }) => url);
  });
  afterAll(() => stack.disposeAsync());
  beforeEach(() => {
    own = new AsyncDisposableStack();
  });
  afterEach(() => own.disposeAsync());

  describe("inspect", () => {
    test("shows who holds on which node, with a shortened token, and ends with 0", async () => {
      const lease = await holdEverywhere("held");
      const ended = await leasehold(["inspect", "held", ...nodesOf(urls)]);
      const { code, stdout, stderr } = ended;
      expect({ code, stderr }).toEqual({ code: 0, stderr: "" });
      const lines = stdout.split("\n");
      expect(lines[0]).toMatch(/^Held: t[0-9a-f]{7}… on 5 of 5 \(.+\), for another \d+ ms at most$/);
      expect(lines[1]).toBe(`Latest fence: ${lease.fence}`);
      expect(lines[3]).toMatch(/^NODE +SAYS +TOKEN +LEFT +FENCE +ROUND TRIP$/);
      const row = `^127\\.0\\.0\\.1:\\d+  held  ${shortened(lease)}  \\d+\\.\\d s  ${lease.fence}  [\\d.]+ ms$`;
      for (const line of lines.slice(4, 9)) expect(line).toMatch(new RegExp(row));
      expect(stdout).not.toContain(lease.token);
      expectPlain(ended);
    });

    test("gives all of it as JSON, without the token as well", async () => {
      const lease = await holdEverywhere("json");
      const { code, document } = await leaseholdJson(["inspect", "json", ...nodesOf(urls)]);
      expect(code).toBe(0);
      expect(document).toMatchObject({
        name: "json",
        verdict: "held",
        held: true,
        token: shortened(lease),
        fence: lease.fence,
      });
      expect(document.nodes).toHaveLength(5);
      expect(JSON.stringify(document)).not.toContain(lease.token);
    });

    test("ends with 0 for free, 1 for minority and split, 3 for unreachable", async () => {
      const lease = await holdEverywhere("verdicts");
      const look = async (...others: readonly string[]) => {
        const { code, document } = await leaseholdJson([
          "inspect",
          "verdicts",
          ...nodesOf(others.length > 0 ? others : urls),
        ]);
        return [code, document.verdict];
      };
      expect(await look(...urls.slice(0, 2), nowhere, nowhere, nowhere)).toEqual([3, "unreachable"]);
      await Promise.all(five.slice(2).map(({ redis }) => redis.del(lease.key)));
      expect(await look()).toEqual([1, "minority"]);
      await five[4]?.redis.set(lease.key, "tOther", "PX", 60_000);
      expect(await look()).toEqual([1, "split"]);
      await Promise.all(five.map(({ redis }) => redis.del(lease.key)));
      expect(await look()).toEqual([0, "free"]);
    });

    test("needs as many as --quorum says, and looks under --prefix", async () => {
      const lease = await holdEverywhere("strict");
      await five[4]?.redis.del(lease.key);
      const args = ["inspect", "strict", ...nodesOf(urls)];
      expect((await leaseholdJson([...args, "--quorum", "4"])).document.verdict).toBe("held");
      expect((await leaseholdJson([...args, "--quorum", "5"])).document.verdict).toBe("minority");
      expect((await leaseholdJson([...args, "--prefix", "other"])).document.verdict).toBe("free");
    });

    test("says why a node did not answer, and of a replica that it is one", async () => {
      const [primary] = five;
      if (!primary) return expect.fail("no servers");
      const replica = await startReplica(own, primary);
      const { code, stdout } = await leasehold(["inspect", "job", ...nodesOf([replica.url, nowhere])]);
      expect(code).toBe(3);
      expect(stdout).toContain("Nobody can tell: 2 of 2 did not answer");
      expect(stdout).toContain("no answer: READONLY You can't write against a read only replica");
      expect(stdout).toContain("no answer: connect ECONNREFUSED 127.0.0.1:1");
    });

    test("shows no control characters, whatever stands in Redis", async () => {
      await five[0]?.redis.set("lock:{evil}", "\u001b[2J\u009b31m\u202eevil\n".repeat(20));
      const args = ["inspect", "evil", "--node", urls[0] ?? ""];
      for (const ended of [await leasehold(args), await leasehold([...args, "--json"])]) {
        expect(ended.code).toBe(0);
        for (const control of ["\u001b", "\u009b", "\u202e"]) expect(ended.stdout).not.toContain(control);
      }
    });

    test("tells from a second on that it waits, on standard error", async () => {
      const silent = await startSilence();
      const { code, stdout, progress } = await leasehold(["inspect", "job", "--node", silent, "--json"]);
      expect(code).toBe(3);
      expect(JSON.parse(stdout)).toMatchObject({ verdict: "unreachable", nodes: [{ reason: "timeout" }] });
      expect(progress).toEqual([expect.stringMatching(/^Asking 1 node about job \(\d s\)\n$/)]);
    });
  });

  describe("doctor", () => {
    test("ends with 0 where nothing is wrong, and lists what was looked at with --all", async () => {
      const [brief, all] = await Promise.all([
        leasehold(["doctor", ...nodesOf(urls)]),
        leasehold(["doctor", "--all", ...nodesOf(urls)]),
      ]);
      expect(brief).toMatchObject({ code: 0, stderr: "" });
      expect(brief.stdout).toMatch(
        /^NODE +ROLE +VERSION +ROUND TRIP +CLOCK\n(127\S+ +primary +\d+\.\S+ +[\d.]+ ms +[+-][\d.]+ ms ± [\d.]+ ms\n){5}\n/,
      );
      expect(brief.stdout).toMatch(/\n0 errors, 0 warnings, 0 unknown, \d+ in order \(--all lists them\)\n$/);
      expect(all.code).toBe(0);
      expect(all.stdout).toMatch(/\nok version on 127\S+:\d+, 127/);
      expectPlain(brief);
    });

    test("finds a wrong clock, and ends with 1", async () => {
      const proxy = await startShiftedClock(five[0]?.port ?? 0, -90);
      own.defer(proxy.stop);
      const args = ["doctor", ...nodesOf([`redis://127.0.0.1:${proxy.port}`, ...urls.slice(1)])];
      const { code, stdout } = await leasehold(args);
      expect(code).toBe(1);
      expect(stdout).toMatch(
        new RegExp(`\\nerror clock on 127\\.0\\.0\\.1:${proxy.port}\\n  Its clock is (90|89)\\.\\d s behind `),
      );
      expect(stdout).toContain("1 error, 0 warnings");
      const json = await leaseholdJson(args);
      expect(json.code).toBe(1);
      const [first, ...others] = json.document.findings as Finding[];
      expect(first).toMatchObject({ severity: "error", code: "clock", node: `127.0.0.1:${proxy.port}` });
      expect(others.filter(({ severity }) => severity !== "ok")).toEqual([]);
    });

    test("judges by the lease that is used", async () => {
      const proxy = await startShiftedClock(five[0]?.port ?? 0, 1);
      own.defer(proxy.stop);
      const args = ["doctor", ...nodesOf([`redis://127.0.0.1:${proxy.port}`, ...urls.slice(1)])];
      expect((await leaseholdJson([...args, "--lease", "600000"])).code).toBe(0);
      expect((await leaseholdJson([...args, "--drift", "0.5"])).code).toBe(0);
      expect((await leaseholdJson(args)).code).toBe(1);
    });

    test("finds a fake quorum, a replica, and eviction", async () => {
      const [primary] = five;
      if (!primary) return expect.fail("no servers");
      const replica = await startReplica(own, primary);
      const evicting = await startPlain(own, ["--maxmemory", "50mb", "--maxmemory-policy", "allkeys-lru"]);
      const { code, stdout } = await leasehold([
        "doctor",
        ...nodesOf([...urls, primary.url, replica.url, evicting.url]),
      ]);
      expect(code).toBe(1);
      expect(stdout).toContain(`127.0.0.1:${primary.port} and 127.0.0.1:${primary.port} are one server`);
      expect(stdout).toContain(`error role on 127.0.0.1:${replica.port}\n  It is a replica.`);
      expect(stdout).toContain(`error eviction on 127.0.0.1:${evicting.port}\n  maxmemory-policy is allkeys-lru.`);
    });

    test("takes a server that refuses CONFIG for one that does not tell, and ends with 0", async () => {
      const guarded = await startDurable(own, ["--rename-command", "CONFIG", ""]);
      const { code, stdout } = await leasehold(["doctor", ...nodesOf([...urls, guarded.url])]);
      expect(code).toBe(0);
      expect(stdout).toContain(
        `unknown persistence on 127.0.0.1:${guarded.port}\n  It keeps every write, but does not tell how soon.`,
      );
      expect(stdout).toContain("0 errors, 0 warnings, 1 unknown");
    });

    test("ends with 3 where too few answered, with 1 where one is missing", async () => {
      expect((await leasehold(["doctor", ...nodesOf([...urls.slice(0, 4), nowhere])])).code).toBe(1);
      const { code, stdout } = await leasehold([
        "doctor",
        ...nodesOf([...urls.slice(0, 2), nowhere, nowhere, nowhere]),
      ]);
      expect(code).toBe(3);
      expect(stdout).toContain(
        "error reachable on 127.0.0.1:1, 127.0.0.1:1, 127.0.0.1:1\n  It gave no answer: connect ECONNREFUSED",
      );
      expect(stdout).toContain("2 of 5 answered, and a holder needs 3");
    });
  });

  describe("self-test", () => {
    test("proves six promises on each node, leaves nothing there, and ends with 0", async () => {
      await Promise.all(five.map(({ redis }) => redis.flushall()));
      const ended = await leasehold(["self-test", ...nodesOf(urls)]);
      expect(ended).toMatchObject({ code: 0, stderr: "" });
      expect(ended.stdout.match(/^ {2}kept {4}/gm)).toHaveLength(30);
      expect(ended.stdout).toMatch(/\nPassed on 5 of 5 nodes\n$/);
      expect(await Promise.all(five.map(({ redis }) => redis.dbsize()))).toEqual([0, 0, 0, 0, 0]);
      expectPlain(ended);
    });

    test("ends with 1 where a promise is broken, and says which and what was seen", async () => {
      const inner = ioredisClient(five[0]?.redis ?? expect.fail("no servers"));
      const careless: CommandClient = {
        ...inner,
        async execute(command) {
          const reply = await inner.execute(command);
          const refused = command[1] === acquireScript.source && Array.isArray(reply) && reply[0] === 0;
          return refused ? [1, Number(reply[1]) + 1, 1_000] : reply;
        },
      };
      const rest = await startRestServer(careless);
      own.defer(rest.stop);
      const env = { UPSTASH_REDIS_REST_URL: rest.url, UPSTASH_REDIS_REST_TOKEN: rest.token };
      const { code, stdout } = await leasehold(["self-test"], env);
      expect(code).toBe(1);
      expect(stdout).toContain("BROKEN  exclusive    While one holds it, another is refused: granted, then granted");
      const json = await leaseholdJson(["self-test"], env);
      expect(json).toMatchObject({ code: 1, document: { passed: false } });
      expect(await five[0]?.redis.dbsize()).toBe(0);
    });

    test("ends with 3 where a node did not answer, and still tests the others", async () => {
      const { code, stdout } = await leasehold(["self-test", ...nodesOf([nowhere, urls[0] ?? ""])]);
      expect(code).toBe(3);
      expect(stdout).toContain("ECONNREFUSED");
      expect(stdout).toContain("Passed on 1 of 2 nodes");
    });

    test.each(["SIGINT", "SIGTERM"] as const)("cleans up after %s, and ends as one who was told to", async (signal) => {
      const slow = ioredisClient(five[0]?.redis ?? expect.fail("no servers"));
      const running: { child?: ReturnType<typeof start>["child"] } = {};
      let commands = 0;
      const rest = await startRestServer({
        execute(command) {
          commands += 1;
          if (commands === 3) running.child?.kill(signal);
          return slow.execute(command);
        },
      });
      own.defer(rest.stop);
      const { child, ended } = start(["self-test", "--node", rest.url], { UPSTASH_REDIS_REST_TOKEN: rest.token });
      running.child = child;
      const { code, stdout } = await ended;
      expect(code).toBe(signal === "SIGINT" ? 130 : 143);
      expect(stdout).toContain("interrupted, and cleaned up");
      expect(await five[0]?.redis.dbsize()).toBe(0);
    });
  });

  describe("secrets", () => {
    const password = "p%40ssword-that-must-not-be-shown";
    const token = "token-that-must-not-be-shown";

    function expectNoSecret({ stdout, stderr }: Ended): void {
      for (const secret of [password, decodeURIComponent(password), token, "wrong-one"]) {
        expect(stdout + stderr).not.toContain(secret);
      }
    }

    test("come from URLs, the environment and files, open the door, and are never shown", async () => {
      const locked = await startDurable(own, ["--requirepass", decodeURIComponent(password)]);
      const rest = await startRestServer(ioredisClient(five[0]?.redis ?? expect.fail("no servers")), { token });
      own.defer(rest.stop);
      const folder = await mkdtemp(join(tmpdir(), "leasehold-bin-"));
      own.defer(() => rm(folder, { recursive: true }));
      const file = join(folder, "token");
      await writeFile(file, `${token}\n`);

      const withPassword = locked.url.replace("//", `//:${password}@`);
      const asDefault = locked.url.replace("//", `//default:${password}@`);
      const rests = ["--node", rest.url];
      const ways: readonly [string[], Record<string, string>][] = [
        [["--node", withPassword], {}],
        [["--node", asDefault], {}],
        [["--node", locked.url], { REDISCLI_AUTH: decodeURIComponent(password) }],
        [[], { REDIS_URL: withPassword }],
        [rests, { UPSTASH_REDIS_REST_TOKEN: token }],
        [[...rests, "--token-env", "MINE"], { MINE: token }],
        [[...rests, "--token-file", file], {}],
        [["--node", withPassword, ...rests, ...rests, "--token-file", file, "--token-file", file], {}],
      ];
      for (const [args, env] of ways) {
        const ended = await leasehold(["inspect", "job", ...args], env);
        expect({ args, code: ended.code }).toEqual({ args, code: 0 });
        expectNoSecret(ended);
      }
    });

    test("that are wrong are told as Redis tells it, and not shown either", async () => {
      const locked = await startDurable(own, ["--requirepass", decodeURIComponent(password)]);
      const rest = await startRestServer(ioredisClient(five[0]?.redis ?? expect.fail("no servers")), { token });
      own.defer(rest.stop);
      for (const command of [["inspect", "job"], ["doctor"], ["self-test", "--json"]]) {
        const wrong = await leasehold([...command, "--node", locked.url.replace("//", "//:wrong-one@")]);
        expect({ command, code: wrong.code }).toEqual({ command, code: 3 });
        expect(wrong.stdout + wrong.stderr).toContain("WRONGPASS");
        expect(wrong.stdout).not.toMatch(/\.\.$/m); // Redis ends its text with a full stop
        expectNoSecret(wrong);
        const none = await leasehold([...command, "--node", locked.url]);
        expect({ command, code: none.code }).toEqual({ command, code: 3 });
        expect(none.stdout).toContain("NOAUTH");
        const bearer = await leasehold([...command, "--node", rest.url], {
          UPSTASH_REDIS_REST_TOKEN: "wrong-one",
        });
        expect(bearer.stdout).toContain("WRONGPASS");
        expectNoSecret(bearer);
      }
    });
  });

  describe("colours", () => {
    const colour = "\u001b[3"; // and a digit, for one of the eight

    test("are there where they are asked for, and not where NO_COLOR or JSON is", async () => {
      const args = ["inspect", "job", ...nodesOf(urls)];
      expect((await leasehold(args, { FORCE_COLOR: "1" })).stdout).toContain(colour);
      expectPlain(await leasehold(args, { FORCE_COLOR: "1", NO_COLOR: "1" }));
      expectPlain(await leasehold([...args, "--json"], { FORCE_COLOR: "1" }));
      expectPlain(await leasehold(args));
    });

    // Of util-linux, which has a terminal for whoever has none.
    test.skipIf(spawnSync("script", ["--version"]).status !== 0)(
      "are there on a terminal, and progress on its line",
      async () => {
        const run = (url: string, more: Record<string, string> = {}) => {
          const command = `"${process.execPath}" --conditions=leasehold-source bin/leasehold.ts inspect job --node ${url}`;
          const env = { PATH: process.env.PATH, TERM: "xterm", ...more };
          return runCommand("script", ["-qec", command, "/dev/null"], { env });
        };
        const { code, stdout } = await run(await startSilence());
        expect(code).toBe(3);
        expect(stdout).toContain(colour);
        expect(stdout).toContain("\r\u001b[2KAsking 1 node about job (");
        expect((await run(nowhere, { NO_COLOR: "1" })).stdout).not.toContain(colour);
      },
    );
  });

  test("what is piped to a reader that stops reading ends quietly, and cleans up", async () => {
    const command = `"${process.execPath}" --conditions=leasehold-source bin/leasehold.ts doctor --json ${nodesOf(urls).join(" ")} | head -c 1`;
    const pipe = (line: string) => runCommand("sh", ["-c", line], { env: { PATH: process.env.PATH } });
    const { stdout, stderr } = await pipe(command);
    expect(stdout).toBe("{");
    expect(stderr).not.toMatch(/EPIPE|Error/);
    const tests = await pipe(command.replace(/doctor.*/, `self-test ${nodesOf(urls).join(" ")} | head -n 1`));
    expect(tests.stderr).not.toMatch(/EPIPE|Error/);
    expect(await Promise.all(five.map(({ redis }) => redis.keys("*self-test*")))).toEqual([[], [], [], [], []]);
  });
});
