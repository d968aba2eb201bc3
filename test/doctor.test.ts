import { describe, expect, test } from "vitest";
import { memoryClient } from "../adapters/memory/index.ts";
import { type Command, type CommandClient, type Reply, ReplyError } from "../src/command.ts";
import { type Diagnosis, type DoctorOptions, doctor, type Finding } from "../src/doctor.ts";
import { faultyClient } from "./support/faulty-client.ts";
import { lockError } from "./support/rejection.ts";
import { virtualEnvironment } from "./support/virtual-clock.ts";

/** What a server says of itself; an error is thrown, a function asked. */
interface Account {
  readonly info?: Record<string, string> | Error;
  readonly config?: Record<string, string> | Error;
  readonly time?: (now: number) => Reply;
  readonly commands?: Reply | Error;
  readonly script?: Reply | Error;
  readonly header?: string;
  readonly roundTripMs?: number;
}

const sound = {
  redis_version: "7.0.15",
  role: "master",
  maxmemory: "0",
  maxmemory_policy: "noeviction",
  aof_enabled: "1",
};
const durable: Record<string, string> = { appendonly: "yes", appendfsync: "always", save: "" };
const refused = new ReplyError("NOPERM this user has no permissions to run the 'info' command");

/** Servers that give these accounts of themselves, and everything that was asked of them. */
function world(...accounts: readonly Account[]) {
  const env = virtualEnvironment();
  const asked: Command[] = [];
  const clients = accounts.map((account, place): CommandClient => {
    const { info = {}, config = durable, time, commands = [null, null], script, header, roundTripMs = 0 } = account;
    const redis = memoryClient({}, env);
    const half = roundTripMs / 2;
    const answer = (value: Reply | Error | undefined): Reply => {
      if (value instanceof Error) throw value;
      return value ?? null;
    };
    const server: CommandClient = {
      label: `node ${place + 1}`,
      async execute(command) {
        asked.push(command);
        const [verb, ...args] = command;
        if (verb === "TIME" && time) return answer(time(env.clock.wall));
        if (verb === "CONFIG")
          return answer(config instanceof Error ? config : [String(args[1]), config[String(args[1])] ?? ""]);
        if (verb === "COMMAND") return answer(commands);
        if (verb === "EVAL" && args[0] === "#!lua\nreturn 1") return 1;
        if (verb === "EVAL" && script !== undefined) return answer(script);
        if (verb !== "INFO") return redis.execute(command);
        const fields =
          info instanceof Error
            ? answer(info)
            : { ...sound, run_id: `id${place}`, master_replid: `r${place}`, ...info };
        return Object.entries(fields ?? {})
          .map(([name, value]) => `${name}:${value}\r\n`)
          .join("");
      },
    };
    return { ...faultyClient(server, env.clock, () => ({ requestMs: half, replyMs: half })), scriptHeader: header };
  });
  const examine = (options?: DoctorOptions): Promise<Diagnosis> => env.clock.until(doctor(clients, options, env));
  return { env, clients, asked, examine };
}

async function findingOf(code: string, account: Account, options?: DoctorOptions): Promise<Finding | undefined> {
  const { findings } = await world(account).examine(options);
  return findings.find((finding) => finding.code === code && (finding.node !== undefined || code === "round-trip"));
}

/** The server's clock, so many ms ahead. */
function ahead(ms: number): (now: number) => Reply {
  return (now) => [String(Math.floor((now + ms) / 1_000)), String(((now + ms) % 1_000) * 1_000)];
}

describe("doctor()", () => {
  test("finds nothing wrong with five sound servers, and says what it looked at", async () => {
    const { findings, nodes } = await world({}, {}, {}, {}, {}).examine();
    expect(findings.filter(({ severity }) => severity !== "ok")).toEqual([]);
    const codes = new Set(findings.map(({ code }) => code));
    expect([...codes].sort()).toEqual(
      "clock compare-and-set eviction independence persistence role round-trip script-header scripts version".split(
        " ",
      ),
    );
    expect(nodes).toHaveLength(5);
    expect(nodes[0]).toEqual({
      label: "node 1",
      answered: true,
      version: "7.0.15",
      role: "primary",
      roundTripMs: 0,
      clockAheadMs: 0,
      clockErrorMs: 1,
    });
  });

  test("puts the worst first, and every finding says what it means; what is wrong also what to do", async () => {
    const { findings } = await world({ info: { role: "slave" } }, { config: refused, info: refused }, {}).examine();
    const severities = findings.map(({ severity }) => severity);
    expect([...new Set(severities)]).toEqual(["error", "unknown", "ok"]);
    for (const { severity, finding, meaning, remedy } of findings) {
      expect(finding).not.toBe("");
      expect(meaning).not.toBe("");
      if (severity === "error" || severity === "warning") expect(remedy).not.toBe("");
    }
  });

  test("sends nothing but reads", async () => {
    const { asked, examine } = world({});
    await examine();
    const verbs = new Set(asked.map(([verb]) => verb));
    expect(verbs).toEqual(new Set(["TIME", "INFO", "EVAL", "COMMAND", "CONFIG"]));
    for (const [verb, sub] of asked) if (verb === "CONFIG") expect(sub).toBe("GET");
  });

  test("refuses bad arguments, and sends nothing", async () => {
    const { asked, clients, env } = world({});
    await lockError(doctor([], {}, env), "config");
    await lockError(doctor([{ call() {} } as unknown as CommandClient], {}, env), "config");
    for (const options of [
      { leaseMs: 5 },
      { quorum: 2 },
      { driftFactor: 1 },
      { driftFactor: "0" },
      { prefix: "a{b" },
    ]) {
      await lockError(doctor(clients, options as DoctorOptions, env), "config");
    }
    expect(asked).toEqual([]);
  });

  test("takes refused credentials for no answer, in whatever words a proxy says so", async () => {
    const { env } = world({});
    const refusal = new ReplyError("Unauthorized: bad token", { code: "WRONGPASS" });
    const closed: CommandClient = { label: "closed", execute: () => Promise.reject(refusal) };
    const { reachable, findings } = await env.clock.until(doctor(closed, {}, env), 3_000);
    expect(reachable).toBe(false);
    expect(findings[0]).toMatchObject({ code: "reachable", finding: "It gave no answer: Unauthorized: bad token" });
  });

  test("tells of a server that does not answer, why, and no more of it, within a time of its own", async () => {
    const { env, clients } = world({}, {});
    const silent: CommandClient = { label: "silent", execute: () => new Promise(() => {}) };
    const gone: CommandClient = { label: "gone", execute: () => Promise.reject(new Error("connect ECONNREFUSED")) };
    const { findings, nodes } = await env.clock.until(doctor([...clients, silent, gone], { quorum: 3 }, env), 3_000);
    expect(findings.filter(({ node }) => node === "silent").map(({ finding }) => finding)).toEqual([
      "It gave no answer: timeout",
    ]);
    expect(findings.filter(({ node }) => node === "gone").map(({ finding }) => finding)).toEqual([
      "It gave no answer: connect ECONNREFUSED",
    ]);
    expect(findings.find(({ code }) => code === "round-trip")).toMatchObject({
      severity: "error",
      finding: "2 of 4 answered, and a holder needs 3",
    });
    expect(nodes.map(({ answered }) => answered)).toEqual([true, true, false, false]);
    expect(env.clock.pending).toEqual([]);
  });

  test("prints no long text of a client, whatever it rejects with", async () => {
    const { env } = world();
    const chatty: CommandClient = { execute: () => Promise.reject(new Error(`no ${"x".repeat(5_000)}`)) };
    const odd: CommandClient = { execute: () => Promise.reject("a string") };
    const { findings } = await doctor([chatty, odd], {}, env);
    for (const { finding } of findings) expect(finding.length).toBeLessThan(300);
    expect(findings.find(({ node }) => node === "node 2")?.finding).toBe("It gave no answer: no answer");
  });
});

describe("doctor() on clocks", () => {
  test.each([
    [0, 0, "ok"],
    [100, 0, "ok"],
    [-100, 0, "ok"],
    [104, 0, "error"],
    [-104, 0, "error"],
    [150, 100, "unknown"], // 50 ms either way may be the whole difference
    [154, 100, "error"],
    [50, 100, "ok"],
    [52, 100, "unknown"],
    [60_000, 300, "error"],
  ])("a clock %i ms ahead of two others, over a round trip of %i ms, is %s", async (ms, roundTripMs, severity) => {
    const { findings } = await world({}, {}, { time: ahead(ms), roundTripMs }).examine();
    const clocks = findings.filter(({ code }) => code === "clock");
    expect(clocks).toHaveLength(4);
    expect(clocks.find(({ node }) => node === "node 3")?.severity).toBe(severity);
    for (const { node, severity: own } of clocks) if (node !== "node 3") expect(own).toBe("ok");
  });

  test("says how far, with the round trip as its error, against what, and what that means", async () => {
    const { findings } = await world({}, {}, { time: ahead(60_000), roundTripMs: 20 }).examine();
    expect(findings[0]).toEqual({
      severity: "error",
      code: "clock",
      node: "node 3",
      finding: "Its clock is 60.0 s ahead of the others', give or take 11 ms: a lease allows for 102 ms",
      meaning: expect.stringContaining("When it is set back in one step, leases on this node end late"),
      remedy: expect.stringContaining("slew"),
    });
    const behind = await world({ time: ahead(-60_000) }).examine();
    expect(behind.findings[0]?.meaning).toContain("end early by as much: two may then hold one lock");
  });

  test("allows for what the drift of the lease that is asked about allows for", async () => {
    const account = { time: ahead(104) };
    expect(await findingOf("clock", account, { leaseMs: 30_000 })).toMatchObject({ severity: "ok" });
    expect(await findingOf("clock", account, { driftFactor: 0.02 })).toMatchObject({ severity: "ok" });
    expect(await findingOf("clock", { time: ahead(10) }, { leaseMs: 100 })).toMatchObject({ severity: "error" });
  });

  test("finds this machine's own clock wrong where all nodes agree, and accuses none of them", async () => {
    const off = { time: ahead(5_000) };
    const { findings } = await world(off, off, off).examine();
    const wrong = findings.filter(({ severity }) => severity !== "ok");
    expect(wrong).toHaveLength(1);
    expect(wrong[0]).toMatchObject({ severity: "warning", code: "clock" });
    expect(wrong[0]?.finding).toContain("The clock of this machine is 5000 ms behind the others'");
    expect(wrong[0]).not.toHaveProperty("node");
  });

  test("a clock more than a day off also refuses fences", async () => {
    expect((await findingOf("clock", { time: ahead(2 * 86_400_000) }))?.meaning).toContain("fences are refused");
  });

  test.each([
    [(): Reply => "soon", "an odd reply"],
    [(): Reply => ["x", "y"], "an odd reply"],
    [(): Reply => [], "an odd reply"],
  ])("a reply to TIME such as %o is unknown", async (time, reason) => {
    const finding = await findingOf("clock", { time });
    expect(finding).toMatchObject({ severity: "unknown", finding: `It does not tell the time: ${reason}` });
  });
});

describe("doctor() on one server", () => {
  test.each<[string, Account, string, string]>([
    ["version", { info: { redis_version: "7.2.4" } }, "ok", "Redis 7.2.4"],
    ["version", { info: { redis_version: "6.2.14" } }, "warning", "Redis 6.2.14"],
    ["version", { info: { redis_version: "4.0.14" } }, "error", "Redis 4.0.14"],
    ["version", { info: { valkey_version: "8.1.0" } }, "ok", "Valkey 8.1.0"],
    ["version", { info: { upstash_version: "1.19.0", redis_version: "6.2.6" } }, "ok", "Upstash 1.19.0"],
    ["version", { info: refused }, "unknown", "does not tell its version"],
    ["scripts", {}, "ok", "runs the scripts"],
    ["scripts", { script: new ReplyError("NOPERM no permission for 'eval'") }, "error", "NOPERM no permission"],
    [
      "scripts",
      { script: new ReplyError("READONLY You can't write against a read only replica.") },
      "error",
      "refuses writes",
    ],
    ["scripts", { script: "OK" }, "unknown", "odd reply"],
    ["script-header", { header: "#!lua flags=allow-key-locking" }, "ok", "#!lua flags=allow-key-locking"],
    ["script-header", { info: { upstash_version: "1.19.0" } }, "warning", "without a header"],
    ["script-header", {}, "ok", "takes script headers"],
    ["compare-and-set", {}, "ok", "compare and delete: none"],
    ["compare-and-set", { commands: [["delex"], null] }, "ok", "compare and delete: DELEX"],
    ["compare-and-set", { commands: refused }, "unknown", "is not told"],
    ["role", {}, "ok", "primary"],
    ["role", { info: { role: "slave", slave_read_only: "1" } }, "error", "replica"],
    ["role", { info: { role: "sentinel" } }, "error", "sentinel"],
    ["role", { info: refused }, "unknown", "does not tell its role"],
    [
      "replicas",
      { info: { connected_slaves: "1", master_repl_offset: "20", slave0: "ip=1,port=2,state=online,offset=9,lag=1" } },
      "ok",
      "1 of 1 replicas online, heard 1 s ago and 11 bytes behind",
    ],
    [
      "replicas",
      { info: { connected_slaves: "1", slave0: "ip=1,port=2,state=online,offset=9,lag=5" } },
      "warning",
      "5 s",
    ],
    [
      "replicas",
      { info: { connected_slaves: "2", slave0: "state=online,lag=0", slave1: "state=wait_bgsave,lag=0" } },
      "warning",
      "1 of 2",
    ],
    ["eviction", {}, "ok", "noeviction"],
    ["eviction", { info: { maxmemory_policy: "volatile-lru", maxmemory: "1000" } }, "error", "volatile-lru"],
    ["eviction", { info: { maxmemory_policy: "allkeys-lru" } }, "warning", "allkeys-lru, without a limit as yet"],
    ["eviction", { info: refused, config: { "maxmemory-policy": "allkeys-lru" } }, "error", "allkeys-lru"],
    ["eviction", { info: refused, config: refused }, "unknown", "does not tell"],
    ["persistence", {}, "ok", "on disk before it is answered"],
    ["persistence", { config: { ...durable, appendfsync: "everysec" } }, "warning", "everysec"],
    ["persistence", { info: { aof_enabled: "0" } }, "warning", "keeps nothing"],
    ["persistence", { info: { aof_enabled: "0" }, config: { save: "3600 1" } }, "warning", "snapshots only"],
    ["persistence", { info: { aof_enabled: "0" }, config: refused }, "warning", "no log of writes"],
    ["persistence", { config: refused }, "unknown", "does not tell how soon"],
    ["persistence", { info: refused, config: refused }, "unknown", "does not tell what it keeps"],
    ["persistence", { info: refused }, "ok", "on disk"],
  ])("%s of %j is %s: %s", async (code, account, severity, words) => {
    const finding = await findingOf(code, account);
    expect(finding).toMatchObject({ severity, node: "node 1" });
    expect(finding?.finding).toContain(words);
  });

  test("a replica that takes writes is told from one that refuses them", async () => {
    const writable = await findingOf("role", { info: { role: "slave", slave_read_only: "0" } });
    expect(writable?.meaning).toContain("grants what the primary grants to another");
  });

  test("a primary without replicas is not asked about them", async () => {
    expect(await findingOf("replicas", {})).toBeUndefined();
  });
});

describe("doctor() on several servers", () => {
  const independence = async (...infos: readonly (Record<string, string> | Error)[]) => {
    const { findings } = await world(...infos.map((info) => ({ info }))).examine();
    return findings.filter(({ code }) => code === "independence").map(({ severity, finding }) => [severity, finding]);
  };

  test("two that are one server are a fake quorum", async () => {
    expect(await independence({ run_id: "x" }, { run_id: "x" }, {})).toEqual([
      ["error", "node 1 and node 2 are one server"],
    ]);
  });

  test("a primary and its replica, before and after it took over, are no two nodes", async () => {
    const are = [["error", "node 1 and node 2 are a primary and its replica"]];
    expect(await independence({ master_replid: "p" }, { master_replid: "p" }, {})).toEqual(are);
    expect(await independence({ master_replid: "p" }, { master_replid2: "p" }, {})).toEqual(are);
    expect(await independence({ master_replid2: "p" }, { master_replid: "p" }, {})).toEqual(are);
    // Once copies of a third, and on their own since.
    expect(await independence({ master_replid2: "p" }, { master_replid2: "p" }, {})).toEqual([
      ["ok", "3 servers, each with a run id of its own"],
    ]);
  });

  test("which of them does not tell is named", async () => {
    expect(await independence({}, refused, {})).toEqual([["unknown", "Not told by node 2"]]);
  });

  test("one alone is not asked about", async () => {
    expect(await independence({})).toEqual([]);
  });

  test.each([
    [10_000, "ok"],
    [2_000, "warning"], // 2 × 1061 would be fine
    [1_000, "error"],
  ])("with a round trip of 300 ms a lease of %i ms is %s", async (leaseMs, severity) => {
    const far = { roundTripMs: 300 };
    const { findings } = await world(far, far, far).examine({ leaseMs });
    const finding = findings.find(({ code }) => code === "round-trip");
    expect(finding).toMatchObject({ severity });
    expect(finding?.finding).toMatch(/^A quorum usually answers within \d+\.\d ms: the least useful lease is \d+ ms/);
  });

  test("the slowest of three does not count for the least useful lease", async () => {
    const { findings, nodes } = await world({}, {}, { roundTripMs: 2_000 }).examine();
    expect(findings.find(({ code }) => code === "round-trip")).toMatchObject({ severity: "ok" });
    expect(nodes.map(({ roundTripMs }) => roundTripMs)).toEqual([0, 0, 2_000]);
  });
});
