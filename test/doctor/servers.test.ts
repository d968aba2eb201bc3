/** inspectLock() and doctor() on five real servers, in every verdict, and on servers that have every trouble. */
import { Redis } from "ioredis";
import { createClient } from "redis";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { ioredisClient } from "../../adapters/ioredis.ts";
import { nodeRedisClient } from "../../adapters/node-redis.ts";
import { restClient } from "../../adapters/rest.ts";
import type { CommandClient } from "../../src/command.ts";
import { type Diagnosis, doctor, type Finding } from "../../src/doctor.ts";
import { inspectLock } from "../../src/inspect.ts";
import { createLock } from "../../src/lock.ts";
import { createRedlock } from "../../src/redlock.ts";
import { shortened } from "../support/one-redis.ts";
import { describeRedis, startRestServer } from "../support/redis.ts";
import { startShiftedClock } from "../support/shifted-clock.ts";
import { type Sound, startDurable, startFive, startPlain, startReplica } from "./five.ts";

/** What lasts for all tests, and what for one. */
const stack = new AsyncDisposableStack();
let own: AsyncDisposableStack;
let five: Sound[];
let clients: CommandClient[];

function clientOf(
  port: number,
  options: { username?: string; password?: string } = {},
  until: AsyncDisposableStack = own,
): CommandClient {
  const redis = new Redis({ port, protocol: 2, maxRetriesPerRequest: 0, enableReadyCheck: false, ...options });
  redis.on("error", () => {});
  until.defer(() => redis.disconnect());
  return ioredisClient(redis, { label: `:${port}` });
}

/** The findings of one code that are not in order. */
function wrong({ findings }: Diagnosis): Pick<Finding, "severity" | "code" | "node" | "finding">[] {
  return findings
    .filter(({ severity }) => severity !== "ok")
    .map(({ severity, code, node, finding }) => ({ severity, code, ...(node && { node }), finding }));
}

describeRedis("on five real servers", () => {
  beforeAll(async () => {
    five = await startFive(stack);
    clients = five.map(({ port }) => clientOf(port, {}, stack));
  }, 60_000);
  afterAll(() => stack.disposeAsync());
  beforeEach(() => {
    own = new AsyncDisposableStack();
  });
  afterEach(() => own.disposeAsync());

  describe("inspectLock()", () => {
    test("says free, held, minority, split and unreachable", async () => {
      const verdict = async (name: string, list = clients) => (await inspectLock(list, name)).verdict;
      expect(await verdict("job")).toBe("free");
      const lease = await createRedlock(clients, { leaseMs: 60_000 }).acquire("job");
      await expect
        .poll(async () => (await inspectLock(clients, "job")).nodes.filter((node) => node.token).length)
        .toBe(5);
      const state = await inspectLock(clients, "job");
      expect(state).toMatchObject({ verdict: "held", held: true, token: shortened(lease), fence: lease.fence });
      expect(state.remainingMs).toBeGreaterThan(50_000);
      for (const node of state.nodes) expect(node.roundTripMs).toBeGreaterThan(0);

      await Promise.all(five.slice(1, 4).map(({ redis }) => redis.del(lease.key)));
      expect(await verdict("job")).toBe("minority");
      await five[4]?.redis.set(lease.key, "tOther", "PX", 60_000);
      expect(await verdict("job")).toBe("split");
      const gone = [4, 3, 2].map(() => clientOf(1));
      expect(await verdict("job", [...clients.slice(0, 2), ...gone])).toBe("unreachable");
    });

    test("a read-only replica has no vote, though it could have answered from the past", async () => {
      const [primary] = five;
      if (!primary) return expect.fail("no servers");
      const replica = await startReplica(own, primary);
      const lease = await createLock(clientOf(primary.port), { leaseMs: 60_000 }).acquire("replicated");
      await expect.poll(() => replica.redis.get(lease.key), { timeout: 10_000 }).toBe(lease.token);
      const state = await inspectLock([clientOf(replica.port)], "replicated");
      expect(state).toMatchObject({ verdict: "unreachable", nodes: [{ outcome: "no-vote" }] });
      expect(state.nodes[0]?.reason).toContain("READONLY");

      // It takes over, and grants what its old primary still has granted to another.
      await replica.redis.replicaof("NO", "ONE");
      await replica.redis.del(lease.key);
      await createLock(clientOf(replica.port)).acquire("replicated");
      const both = await inspectLock([clientOf(primary.port), clientOf(replica.port)], "replicated");
      expect(both).toMatchObject({ verdict: "split", held: false });
    });

    test("tells who holds where memory is full and nothing can be acquired", async () => {
      const full = await startPlain(own);
      const client = clientOf(full.port);
      const lease = await createLock(client).acquire("job");
      await full.redis.config("SET", "maxmemory", "1");
      expect(await inspectLock(client, "job")).toMatchObject({ verdict: "held", token: shortened(lease) });
    });
  });

  describe("doctor()", () => {
    test("has nothing to say against them, over TCP by both clients and over REST", async () => {
      const [one, two, three] = five;
      if (!one || !two || !three) return expect.fail("no servers");
      expect(wrong(await doctor(clients))).toEqual([]);

      const overNodeRedis = await createClient({ url: two.url, RESP: 2 }).connect();
      own.defer(() => overNodeRedis.destroy());
      const rest = await startRestServer(clientOf(three.port));
      own.defer(rest.stop);
      const mixed = [clientOf(one.port), nodeRedisClient(overNodeRedis), restClient(rest)];
      expect(wrong(await doctor(mixed))).toEqual([]);
    });

    test("leaves them as they were", async () => {
      const before = await Promise.all(five.map(({ redis }) => redis.info("persistence")));
      const changes = (info: string) => /rdb_changes_since_last_save:\d+/.exec(info)?.[0];
      await doctor(clients);
      const after = await Promise.all(five.map(({ redis }) => redis.info("persistence")));
      expect(after.map(changes)).toEqual(before.map(changes));
    });

    test("finds the one whose clock is wrong", async () => {
      const [one] = five;
      const proxy = await startShiftedClock(one?.port ?? 0, 60);
      own.defer(proxy.stop);
      const diagnosis = await doctor([clientOf(proxy.port), ...clients.slice(1)]);
      expect(wrong(diagnosis)).toEqual([
        {
          severity: "error",
          code: "clock",
          node: `:${proxy.port}`,
          finding: expect.stringMatching(/^Its clock is (60|59\.\d)\.?\d* s ahead/),
        },
      ]);
      expect(diagnosis.nodes[0]?.clockAheadMs).toBeGreaterThan(59_000);
    });

    test("finds the read-only replica, and that it is no node beside its primary", async () => {
      const [primary] = five;
      if (!primary) return expect.fail("no servers");
      const replica = await startReplica(own, primary);
      const found = wrong(await doctor([...clients, clientOf(replica.port)])).filter(
        ({ code }) => code !== "persistence" && code !== "replicas",
      );
      expect(found.map(({ severity, code, node }) => [severity, code, node])).toEqual([
        ["error", "scripts", `:${replica.port}`],
        ["error", "role", `:${replica.port}`],
        ["error", "independence", undefined],
      ]);
      expect(found[2]?.finding).toBe(`:${primary.port} and :${replica.port} are a primary and its replica`);
      expect(found[0]?.finding).toContain("READONLY");
    });

    test("finds the server that was given twice", async () => {
      const again = clientOf(five[0]?.port ?? 0);
      expect(wrong(await doctor([...clients.slice(0, 2), again]))).toMatchObject([
        { severity: "error", code: "independence", finding: expect.stringContaining("are one server") },
      ]);
    });

    test("takes a server that refuses CONFIG, by ACL or by another name, for one that does not tell", async () => {
      const [guarded, renamed] = [await startDurable(own), await startDurable(own, ["--rename-command", "CONFIG", ""])];
      await guarded.redis.call("ACL", "SETUSER", "lock", "on", "nopass", "~lock:*", "+@all", "-config");
      for (const client of [clientOf(guarded.port, { username: "lock", password: "x" }), clientOf(renamed.port)]) {
        const found = wrong(await doctor([...clients, client]));
        expect(found).toMatchObject([
          { severity: "unknown", code: "persistence", finding: "It keeps every write, but does not tell how soon" },
        ]);
      }
    });

    test("takes a user who may do no more than lock for one who is told little", async () => {
      const guarded = await startDurable(own);
      await guarded.redis.call(
        ...(["ACL", "SETUSER", "lock", "on", "nopass", "~lock:*", "-@all", "+eval", "+evalsha", "+time"] as [
          string,
          ...string[],
        ]),
        ...["+mget", "+set", "+get", "+del", "+pttl", "+pexpire"],
      );
      const client = clientOf(guarded.port, { username: "lock", password: "x" });
      const lease = await createLock(client).acquire("job");
      expect(await inspectLock(client, "job")).toMatchObject({ verdict: "held", token: shortened(lease) });
      const codes = wrong(await doctor([client])).map(({ severity, code }) => `${severity} ${code}`);
      const unknown = ["compare-and-set", "eviction", "persistence", "role", "version"];
      expect(codes.sort()).toEqual(unknown.map((code) => `unknown ${code}`));
    });

    test("finds eviction, and what a restart forgets", async () => {
      const plain = await startPlain(own, ["--maxmemory", "50mb", "--maxmemory-policy", "volatile-lru"]);
      expect(wrong(await doctor(clientOf(plain.port)))).toMatchObject([
        { severity: "error", code: "eviction", finding: "maxmemory-policy is volatile-lru" },
        { severity: "warning", code: "persistence", finding: "It keeps nothing" },
      ]);
    });

    test("tells wrong credentials from a server that is not there", async () => {
      const locked = await startPlain(own, ["--requirepass", "secret-password"]);
      const found = wrong(await doctor([clientOf(locked.port), clientOf(1)]));
      const reachable = found.filter(({ code }) => code === "reachable").map(({ finding }) => finding);
      expect(reachable).toEqual([
        "It gave no answer: NOAUTH Authentication required.",
        expect.stringMatching(/^It gave no answer: .*(max retries|ECONNREFUSED|closed)/),
      ]);
      expect(JSON.stringify(found)).not.toContain("secret-password");
    });
  });
});
