/**
 * Public reports on @upstash/redis, as far as its adapter answers for them: over a REST server that loses replies, hangs
 * and fails.
 */
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import { Redis } from "@upstash/redis";
import { Redis as CloudflareRedis } from "@upstash/redis/cloudflare";
import { Redis as TcpRedis } from "ioredis";
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { ioredisClient } from "../../adapters/ioredis.ts";
import { restServer } from "../../adapters/rest-server.ts";
import { upstashClient } from "../../adapters/upstash.ts";
import { type Command, isReplyError, type Reply } from "../../src/command.ts";
import { createLock } from "../../src/lock.ts";
import { runScript } from "../../src/script.ts";
import { acquireScript } from "../../src/scripts/acquire.ts";
import { extendScript } from "../../src/scripts/extend.ts";
import { releaseScript } from "../../src/scripts/release.ts";
import { describeRedis, listen, type RunningRedis, startRedis } from "../support/redis.ts";
import { lockError, rejection } from "../support/rejection.ts";
import { virtualEnvironment } from "../support/virtual-clock.ts";

const token = "rest-token-that-must-not-be-logged";
const lease = "tLease-token-that-must-not-be-logged";
const [lockKey, fenceKey, voidKey] = ["lock:{job}", "lock:{job}:fence", `lock:{job}:void:${lease}`];
const acquire = ["EVAL", acquireScript.source, 3, lockKey, fenceKey, voidKey, lease, 60_000, ""];
const extend = ["EVAL", extendScript.source, 1, lockKey, lease, 90_000];
const release = ["EVAL", releaseScript.source, 2, lockKey, voidKey, lease, "0"];

/** What happens to a request instead of an answer: "lose" lets it run, "hang" keeps it open. */
type Fault = "lose" | "hang" | { readonly status: number; readonly body: string };

const faults: Fault[] = [];
const requests: string[] = [];
let onHang: () => void = () => {};
let app: { fetch(request: Request): Response | Promise<Response> };
let url: string;

const server = createServer(async (request: IncomingMessage, response: ServerResponse) => {
  requests.push(request.url ?? "");
  const fault = faults.shift();
  if (fault === "hang") return onHang();
  if (typeof fault === "object") return response.writeHead(fault.status).end(fault.body);
  let body = "";
  for await (const chunk of request) body += chunk;
  const headers = Object.entries(request.headers).map(([name, value]): [string, string] => [name, `${value}`]);
  const answer = await app.fetch(new Request(url + request.url, { method: "POST", headers, body }));
  if (fault === "lose") return response.destroy();
  response.writeHead(answer.status, [...answer.headers].flat()).end(await answer.text());
});
beforeAll(async () => {
  url = `http://127.0.0.1:${await listen(server)}`;
});
beforeEach(() => {
  requests.length = 0;
});
afterAll(() => {
  server.close();
  server.closeAllConnections();
});

/** Queues a fault and resolves when a request has run into it. */
function nextRequestHangs(): Promise<void> {
  faults.push("hang");
  return new Promise((resolve) => {
    onHang = resolve;
  });
}

describeRedis("@upstash/redis over a real Redis", () => {
  let redisServer: RunningRedis;
  let tcp: TcpRedis;
  beforeAll(async () => {
    redisServer = await startRedis();
    tcp = new TcpRedis(redisServer.port);
    app = restServer(ioredisClient(tcp), { token });
  });
  beforeEach(() => tcp.flushall());
  afterAll(async () => {
    tcp.disconnect();
    await redisServer.stop();
  });

  test("F03 an acquire, extend and release that the instance repeats do what one does", async () => {
    const client = upstashClient(new Redis({ url, token, retry: { retries: 5, backoff: () => 1 } }));
    faults.push("lose", "lose", "lose", "lose", "lose");
    const granted = acquireScript.decode(await client.execute(acquire));
    expect(requests).toHaveLength(6);
    expect(granted).toEqual({
      type: "granted",
      fence: Number(await tcp.get(fenceKey)),
      remainingMs: expect.any(Number),
    });
    const fence = await tcp.get(fenceKey);
    faults.push("lose");
    expect(extendScript.decode(await client.execute(extend))).toMatchObject({ type: "extended" });
    expect(await tcp.pttl(lockKey)).toBeLessThanOrEqual(90_000);
    faults.push("lose");
    // The first copy deleted it: the second finds nothing, and the lock takes that for a deletion of its own.
    expect(releaseScript.decode(await client.execute(release))).toEqual({ type: "absent" });
    expect(await tcp.get(fenceKey)).toBe(fence);
    expect(await tcp.exists(lockKey)).toBe(0);
  });

  test("F04 a failing command of ours or of the caller's fails alone within one tick", async () => {
    const redis = new Redis({ url, token });
    const client = upstashClient(redis);
    await redis.set("word", "value");
    const [theirs, ours, theirFailure, ourSuccess] = await Promise.allSettled([
      redis.get("word"),
      client.execute(["EVALSHA", "f".repeat(40), 0]),
      redis.incr("word"),
      client.execute(acquire),
    ]);
    expect(theirs).toEqual({ status: "fulfilled", value: "value" });
    expect(ours).toMatchObject({ status: "rejected", reason: { name: "ReplyError", code: "NOSCRIPT" } });
    expect(theirFailure).toMatchObject({ status: "rejected" });
    expect(ourSuccess).toMatchObject({ status: "fulfilled", value: [1, expect.any(Number), 60_000] });
  });

  test("F04 a script that is not known falls back and succeeds, beside a command of the caller's in the same tick", async () => {
    const redis = new Redis({ url, token });
    const client = upstashClient(redis);
    await redis.set("word", "value");
    await tcp.script("FLUSH");
    const sent: unknown[] = [];
    const send = (command: Command): Promise<Reply> => {
      sent.push(command[0]);
      return client.execute(command);
    };
    const call = { script: acquireScript, keys: [lockKey, fenceKey, voidKey], args: [lease, 60_000] };
    const [ours, theirs] = await Promise.all([runScript({ cachesScripts: true }, call, send), redis.get("word")]);
    expect(theirs).toBe("value");
    expect(acquireScript.decode(ours)).toMatchObject({ type: "granted" });
    expect(sent).toEqual(["EVALSHA", "EVAL"]);
  });

  test("F11 the caller's signal ends one command: the next acquire and the release go out", async () => {
    const client = upstashClient(new Redis({ url, token }));
    const hanging = nextRequestHangs();
    const deadline = new AbortController();
    const reason = new DOMException("too late", "TimeoutError");
    const attempt = rejection(client.execute(acquire, { signal: deadline.signal }));
    await hanging;
    deadline.abort(reason);
    expect(await attempt).toBe(reason);
    const { signal } = new AbortController();
    expect(acquireScript.decode(await client.execute(acquire, { signal }))).toMatchObject({ type: "granted" });
    expect(releaseScript.decode(await client.execute(release))).toEqual({ type: "deleted" });
  });

  for (const settings of [{}, { responseEncoding: false, enableAutoPipelining: false } as const]) {
    test.for([1, "OK", [1, 2, 3], undefined])(
      `F11 a signal function of the instance that aborts with %o gives no reply, under ${JSON.stringify(settings)}`,
      async (reason) => {
        let timeOut = new AbortController();
        const client = upstashClient(new Redis({ url, token, ...settings, signal: () => timeOut.signal }));
        const hanging = nextRequestHangs();
        const attempt = rejection(client.execute(acquire));
        await hanging;
        timeOut.abort(reason);
        expect(await attempt).not.toSatisfy(isReplyError);
        timeOut = new AbortController();
        expect(acquireScript.decode(await client.execute(acquire))).toMatchObject({ type: "granted" });
      },
    );

    test.for([1, "OK", [1, 2, 3], undefined])(
      `F11 a lock over one that aborts with %o is neither held nor contended, and goes on, under ${JSON.stringify(settings)}`,
      async (reason) => {
        let timeOut = new AbortController();
        const client = upstashClient(new Redis({ url, token, ...settings, signal: () => timeOut.signal }));
        const lock = createLock(client, {}, virtualEnvironment()); // no time passes: nothing is tried behind
        const hanging = nextRequestHangs();
        const acquiring = lockError(lock.acquire("aborted", { waitMs: 0 }), "unavailable");
        await hanging;
        timeOut.abort(reason);
        expect((await acquiring).nodes).toMatchObject([{ outcome: "unknown" }]);
        timeOut = new AbortController();
        const held = await lock.acquire("aborted", { waitMs: 0 });
        expect(await tcp.get(held.key)).toBe(held.token);
        timeOut.abort(reason);
        await lockError(held.release(), "unavailable");
        timeOut = new AbortController();
        expect(await held.release()).toBe("released");
        expect(await tcp.exists(held.key)).toBe(0);
      },
    );
  }
});

describe("@upstash/redis that is refused", () => {
  const refusal = (redis: object): unknown => {
    try {
      return upstashClient(Object(redis));
    } catch (error) {
      return error;
    }
  };
  const because = (reason: string) => ({
    code: "config",
    message: `Cannot use the client as one of @upstash/redis as ${reason}`,
  });

  test.for([{}, { responseEncoding: false }, { enableAutoPipelining: false }] as const)(
    "F11 a signal that is no function is refused, and nothing is sent, under %o",
    (settings) => {
      const signals = [
        new AbortController().signal,
        AbortSignal.abort(1),
        AbortSignal.abort("OK"),
        AbortSignal.abort(),
      ];
      for (const signal of signals) {
        for (const redis of [
          new Redis({ url, token, ...settings, signal }),
          new CloudflareRedis({ url, token, ...settings, signal }),
        ]) {
          const remedy = "its signal must be a function, such as () => AbortSignal.timeout(5000)";
          expect(refusal(redis)).toMatchObject(because(`${remedy}: current value is an object`));
        }
      }
      expect(requests).toEqual([]);
    },
  );

  test("a cache that may answer instead of Redis is refused", () => {
    const problem = 'its cache must be "no-store": current value is "force-cache"';
    expect(refusal(new Redis({ url, token, cache: "force-cache" }))).toMatchObject(because(problem));
  });

  test("automatic pipelining that makes exec anew at each read, as before version 1.35.2, is refused", () => {
    const old = new Proxy({}, { get: (_, name) => (name === "exec" ? async () => "another's reply" : undefined) });
    const problem = "its automatic pipelining mixes up replies: update to 1.35.2";
    expect(refusal(old)).toMatchObject(because(problem));
  });

  test.for([
    [{}, "it has no exec method: update @upstash/redis to 1.35.2 or later"],
    [{ execute: () => {} }, "it has no exec method: use it as it is"],
    [{ sendCommand: () => {} }, "it has no exec method: wrap it with nodeRedisClient"],
    [{ call: () => {}, exec: () => {} }, "it is one of ioredis: wrap it with ioredisClient"],
  ] as const)("G01 %o is refused at construction", ([client, problem]) => {
    expect(refusal(client)).toMatchObject(because(problem));
  });
});

describe("failures of @upstash/redis", () => {
  const refusedByRedis = [
    [400, '{"error":"NOSCRIPT No matching script"}', "NOSCRIPT"],
    [400, '{"error":"ERR Error running script: -OOM command not allowed"}', "OOM"],
    [401, '{"error":"WRONGPASS invalid or missing auth token"}', "WRONGPASS"],
    [429, '{"error":"ERR max requests limit exceeded"}', "ERR"],
    [200, '{"error":"READONLY You can\'t write against a read only replica."}', "READONLY"],
  ] as const;
  test.for(refusedByRedis)("status %i with %s is an answer from Redis", async ([status, body, code]) => {
    faults.push({ status, body });
    const error = await rejection(upstashClient(new Redis({ url, token })).execute(acquire));
    expect(error).toMatchObject({ name: "ReplyError", code, message: JSON.parse(body).error });
  });

  const unknown = [
    [502, "<html>Bad gateway</html>"],
    [500, '{"error":"Cannot reach Redis"}'],
    [504, ""],
    [200, "{}"],
    [200, '{"result":{"1":2}}'],
    [200, "error code: 1016"],
  ] as const;
  test.for(unknown)("status %i with %s is an unknown outcome", async ([status, body]) => {
    faults.push({ status, body });
    const client = upstashClient(new Redis({ url, token, responseEncoding: false }));
    const error = await rejection(client.execute(acquire));
    expect(error).toBeInstanceOf(Error);
    expect(error).not.toSatisfy(isReplyError);
    expect(String(error)).not.toContain(lease);
  });

  test("a token that fetch refuses to send is not printed", async () => {
    const redis = new Redis({ url, token: `${token}\nsecond line`, retry: { retries: 0 } });
    const error = await rejection(upstashClient(redis).execute(["PING"]));
    expect(String(error)).toContain("Bearer ***");
    expect(String(error)).not.toContain("second line");
    expect(String(error)).not.toContain(token);
  });

  test("C06 credentials in its URL are refused, and a URL that fetch quotes is printed without them", async () => {
    const redis = new Redis({ url: "https://default:hunter2@x.test", token });
    expect(() => upstashClient(redis)).toThrow("as its URL brings credentials");
    const quoting = Object.assign(new Redis({ url, token }), {
      exec: () => Promise.reject(new TypeError("Request cannot be constructed from https://default:hunter2@x.test/")),
    });
    const error = await rejection(upstashClient(quoting).execute(["PING"]));
    expect(String(error)).toContain("https://***@x.test/");
  });
});

describe("defaults of upstashClient()", () => {
  test.for([
    ["https://eu1-quick-fox-1.upstash.io", "eu1-quick-fox-1.upstash.io", "#!lua flags=allow-key-locking"],
    ["https://redis.example:8443/", "redis.example:8443", undefined],
    ["https://upstash.io.example", "upstash.io.example", undefined],
  ] as const)("%s has the label %s and the script header %s", ([address, label, scriptHeader]) => {
    const client = upstashClient(new CloudflareRedis({ url: address, token }));
    expect(client).toMatchObject({ label, scriptHeader, cachesScripts: false });
  });

  test("both can be set", () => {
    const redis = new Redis({ url: "https://eu1.upstash.io", token });
    expect(upstashClient(redis, { label: "eu", scriptHeader: "" })).toMatchObject({ label: "eu", scriptHeader: "" });
  });
});
