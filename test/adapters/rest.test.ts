import { afterEach, describe, expect, test, vi } from "vitest";
import { type RestClientOptions, restClient } from "../../adapters/rest.ts";
import type { Command, CommandClient } from "../../src/command.ts";
import { type ClientUnderTest, clientContract } from "../contract/client.ts";
import { answer, fetchDouble, gate } from "../support/fetch-double.ts";
import { describeRedis, startRestRedis } from "../support/redis.ts";
import { rejection } from "../support/rejection.ts";

async function build(options: Partial<RestClientOptions> = {}): Promise<ClientUnderTest> {
  const server = await startRestRedis({ token: "rest-token" });
  return {
    client: restClient({ url: server.url, token: server.token, ...options }),
    pid: server.redis.pid,
    secrets: [server.token],
    close: server.stop,
  };
}

describeRedis("rest.ts", () => {
  clientContract("restClient", build);
  clientContract("restClient with batch", () => build({ batch: true }));
});

const settings = { url: "https://example.test", token: "rest-token" };

function executeOnce(response: Response, options: Partial<RestClientOptions> = {}): Promise<unknown> {
  const { fetch } = fetchDouble(() => response);
  return restClient({ ...settings, fetch, ...options })
    .execute(["GET", "key"])
    .catch((error: unknown) => error);
}

describe("requests", () => {
  test("one command is one POST to the URL itself, with nothing that a server or a runtime may refuse", async () => {
    const { fetch, calls } = fetchDouble(() => answer(200, { result: "OK" }));
    const { signal } = new AbortController();
    await restClient({ ...settings, fetch }).execute(["SET", "key", "grüße", "PX", 1000], { signal });
    expect(calls).toEqual([
      {
        url: "https://example.test",
        method: "POST",
        headers: { authorization: "Bearer rest-token", "content-type": "application/json" },
        body: expect.stringMatching(/^\["SET","key","grüße","PX",1000\][ \t\n\r]+$/),
        redirect: "manual",
        signal,
      },
    ]);
  });

  test.for([
    ["https://example.test/", "https://example.test"],
    ["https://example.test/redis//", "https://example.test/redis"],
    ["  http://127.0.0.1:8079/a/b\n", "http://127.0.0.1:8079/a/b"],
  ] as const)("the URL %j is called as %s", async ([url, called]) => {
    const { fetch, calls } = fetchDouble(() => answer(200, { result: null }));
    await restClient({ url, token: " rest-token\n", fetch }).execute(["GET", "key"]);
    expect(calls[0]).toMatchObject({ url: called, headers: { authorization: "Bearer rest-token" } });
  });

  test("no two requests have the same body, of whatever client, so that no cache can answer one", async () => {
    const { fetch, calls } = fetchDouble(() => answer(200, { result: null }));
    vi.useFakeTimers({ toFake: ["Date"], now: 1_800_000_000_000 }); // the count alone tells them apart
    const clients = Array.from({ length: 50 }, () => restClient({ ...settings, fetch }));
    await Promise.all(clients.flatMap((client) => Array.from({ length: 10 }, () => client.execute(["GET", "key"]))));
    expect(new Set(calls.map(({ body }) => body)).size).toBe(500);
    expect(calls.map(({ body }) => JSON.parse(body))).toEqual(Array(500).fill(["GET", "key"]));
  });

  test("a later body differs in its time as well, as another process may have counted as far", async () => {
    vi.useFakeTimers({ toFake: ["Date"], now: 1_800_000_000_000 });
    const { fetch, calls } = fetchDouble(() => answer(200, { result: null }));
    await restClient({ ...settings, fetch }).execute(["GET", "key"]);
    vi.setSystemTime(1_800_000_000_001);
    await restClient({ ...settings, fetch }).execute(["GET", "key"]);
    const [first = "", second = ""] = calls.map(({ body }) => body.slice(body.lastIndexOf("]") + 1).slice(0, 21));
    expect(first).toHaveLength(21);
    expect(first).not.toBe(second);
  });

  test("cache is in the request only if it was given", async () => {
    const { fetch, calls } = fetchDouble(() => answer(200, { result: null }));
    await restClient({ ...settings, fetch }).execute(["GET", "key"]);
    await restClient({ ...settings, fetch, cache: undefined }).execute(["GET", "key"]);
    await restClient({ ...settings, fetch, cache: "no-store" }).execute(["GET", "key"]);
    expect(calls.map((call) => ("cache" in call ? call.cache : "absent"))).toEqual(["absent", "absent", "no-store"]);
  });

  test("the global fetch is looked up at each call, and a given one is called without a receiver", async () => {
    const client = restClient(settings);
    const global = vi.fn(async () => answer(200, { result: "global" }));
    vi.stubGlobal("fetch", global);
    expect(await client.execute(["GET", "key"])).toBe("global");
    let receiver: unknown = "not called";
    const fetch = function (this: unknown): Promise<Response> {
      receiver = this;
      return Promise.resolve(answer(200, { result: "given" }));
    };
    expect(await restClient({ ...settings, fetch }).execute(["GET", "key"])).toBe("given");
    expect(receiver).toBeUndefined();
    expect(global).toHaveBeenCalledOnce();
  });

  test("a failed request is not sent again, and what went wrong is told with its cause", async () => {
    const failure = new TypeError("fetch failed", { cause: new Error("read ECONNRESET") });
    const { fetch, calls } = fetchDouble(() => Promise.reject(failure));
    const error = await rejection(restClient({ ...settings, fetch }).execute(["INCR", "key"]));
    expect(error).toMatchObject({ name: "Error", message: "fetch failed: read ECONNRESET" });
    expect(calls).toHaveLength(1);
    const plain = fetchDouble(() => Promise.reject(new Error("no network")));
    await expect(restClient({ ...settings, fetch: plain.fetch }).execute(["INCR", "key"])).rejects.toMatchObject({
      message: "no network",
    });
  });

  test("the text of an error from fetch ends where it shows the token, in its causes too", async () => {
    const cause = new Error("Cannot send Bearer rest-token");
    const { fetch } = fetchDouble(() => Promise.reject(new TypeError("fetch failed", { cause })));
    await expect(restClient({ ...settings, fetch }).execute(["GET", "key"])).rejects.toMatchObject({
      message: "fetch failed: Cannot send Bearer ",
    });
  });
});

describe("replies", () => {
  test.for([
    [{ result: null }, null],
    [{ result: "OK" }, "OK"],
    [{ result: "null" }, "null"],
    [{ result: "dmFsdWU=" }, "dmFsdWU="],
    [{ result: 0 }, 0],
    [{ result: [1, "x", null, [2, []]] }, [1, "x", null, [2, []]]],
    [{ result: "OK", error: null }, "OK"],
  ] as const)("200 with %j resolves", async ([body, reply]) => {
    expect(await executeOnce(answer(200, body))).toEqual(reply);
  });

  test.for([
    [200, "WRONGTYPE Operation against a key", "WRONGTYPE"],
    [400, "WRONGTYPE Operation against a key", "WRONGTYPE"],
    [400, "ERR value is not an integer", "ERR"],
    [400, "ERR NOSCRIPT No matching script", "NOSCRIPT"],
    [400, "ERR max daily request limit exceeded. Limit: 10000, Usage: 10000.", "ERR"],
    [403, "NOPERM this user has no permissions to run the 'eval' command", "NOPERM"],
    [404, "not found", "ERR"],
    [500, "OOM command not allowed when used memory > 'maxmemory'", "OOM"],
    [401, "Unauthorized", "WRONGPASS"],
  ] as const)("%i with the error %j rejects with a ReplyError", async ([status, error, code]) => {
    expect(await executeOnce(answer(status, { error }))).toMatchObject({ name: "ReplyError", message: error, code });
  });

  test.for([[""], ["<html>Authorization Required</html>"], [{ result: "OK" }]])(
    "401 is a matter of credentials whatever the body: %j",
    async ([body]) => {
      const told = { name: "ReplyError", code: "WRONGPASS", message: "status 401" };
      expect(await executeOnce(answer(401, body))).toMatchObject(told);
    },
  );

  test.for([
    [200, ""],
    [200, '""'],
    [200, "{}"],
    [200, "[]"],
    [200, "null"],
    [200, '{"error":{"message":"no text"}}'],
    [200, '{"result":{"a":1}}'],
    [200, '{"result":[1,{"a":1}]}'],
    [200, '{"result":"O'],
    [500, '{"result":"OK"}'],
    [500, '{"error":"SRH: Unable to connect to the Redis server"}'],
    [502, "<html>\n<h1>Bad gateway</h1>\n</html>"],
    [503, "error code: 1016"],
    [504, ""],
    [301, ""],
  ] as const)("%i with the body %j tells nothing: neither null nor a ReplyError", async ([status, body]) => {
    const error = await executeOnce(answer(status, body));
    expect(error).toBeInstanceOf(Error);
    expect(error).not.toHaveProperty("name", "ReplyError");
  });

  test("what cannot be read is quoted in part, with the status and without the token", async () => {
    const page = `<html>\n  <p>Authorization: Bearer rest-token</p>\n${"x ".repeat(2500)}`;
    const error = await executeOnce(answer(502, page));
    const { message } = error as Error;
    expect(message).toBe("status 502: <html> <p>Authorization: Bearer ");
  });

  test("the text of a Redis error ends where it shows the token", async () => {
    const error = await executeOnce(answer(400, { error: "ERR unknown command 'rest-token'" }));
    expect(error).toHaveProperty("message", "ERR unknown command '");
  });

  test.for([
    [429, { error: "ERR max requests limit exceeded" }, "2", 2000],
    [429, "Too many requests", "30", 30_000],
    [429, "Too many requests", "Wed, 21 Oct 2026 07:28:00 GMT", undefined],
    [503, "", "0", undefined],
    [429, "", "", undefined],
  ] as const)("%i with %j and Retry-After %j rejects with the time to wait", async ([status, body, header, ms]) => {
    const error = await executeOnce(answer(status, body, { "retry-after": header }));
    expect(error).toBeInstanceOf(Error);
    expect((error as { retryAfterMs?: unknown }).retryAfterMs).toBe(ms);
  });
});

describe("settings", () => {
  test.for([
    [{ url: undefined }, "Cannot use url as it must be a REST URL without credentials: current value is undefined"],
    [{ url: "" }, "url as it must be a REST URL without credentials: current value is string"],
    [{ url: "secret.example.test" }, "current value is string"],
    [{ url: "rediss://:secret@example.test:6379" }, "must be a REST URL without credentials"],
    [{ url: "secret:example" }, "current value is string"],
    [{ url: "https://user:secret@example.test" }, "must be a REST URL without credentials"],
    [{ token: undefined }, "Cannot use token as it must be a REST token: current value is undefined"],
    [{ token: "" }, "current value is string"],
    [{ token: "secret secret" }, "token as it must be a REST token: current value is string"],
    [{ token: "secret\r\nx: y" }, "must be a REST token"],
    [{ token: "secret…" }, "must be a REST token"],
  ] as const)("%j is refused at the first use, before a request", async ([wrong, message]) => {
    const { fetch, calls } = fetchDouble(() => answer(200, { result: null }));
    for (const batch of [false, true]) {
      const client = restClient({ ...settings, ...wrong, fetch, batch });
      const error = await rejection(client.execute(["GET", "key"]));
      expect(error).toMatchObject({ name: "LockError", code: "config", message: expect.stringContaining(message) });
      expect(String(error)).not.toContain("secret");
      expect(client.label ?? "").not.toMatch(/secret@|:secret/);
    }
    expect(calls).toEqual([]);
  });

  test("label is the host unless given, and undefined where there is none", () => {
    expect(restClient(settings).label).toBe("example.test");
    expect(restClient({ ...settings, url: "http://127.0.0.1:8079/redis" }).label).toBe("127.0.0.1:8079");
    expect(restClient({ ...settings, label: "eu-west" }).label).toBe("eu-west");
    expect(restClient({ ...settings, url: undefined }).label).toBeUndefined();
  });

  test("scripts get the header that spares the lock on the whole database on Upstash alone", () => {
    const header = "#!lua flags=allow-key-locking";
    expect(restClient({ ...settings, url: "https://eu1-good-1.upstash.io" }).scriptHeader).toBe(header);
    expect(restClient({ ...settings, url: "https://eu1-good-1.upstash.io", scriptHeader: "" }).scriptHeader).toBe("");
    expect(restClient(settings).scriptHeader).toBeUndefined();
    expect(restClient({ ...settings, url: "https://upstash.io.example.test" }).scriptHeader).toBeUndefined();
    expect(restClient({ ...settings, scriptHeader: header }).scriptHeader).toBe(header);
  });
});

describe("aborts", () => {
  test("a signal that aborts before sends nothing", async () => {
    const { fetch, calls } = fetchDouble(() => answer(200, { result: null }));
    const attempt = restClient({ ...settings, fetch }).execute(["GET", "key"], { signal: AbortSignal.abort("enough") });
    await expect(attempt).rejects.toBe("enough");
    expect(calls).toEqual([]);
  });

  test.for(["response", "body"] as const)(
    "a signal ends the waiting for the %s, with a fetch that ignores it",
    async (part) => {
      const never = new Promise<never>(() => {});
      const reached = gate<void>();
      const { fetch } = fetchDouble(() => {
        const text = (): Promise<string> => {
          reached.open();
          return never;
        };
        if (part === "response") reached.open();
        return part === "response" ? never : { status: 200, headers: new Headers(), text };
      });
      const controller = new AbortController();
      const attempt = restClient({ ...settings, fetch }).execute(["GET", "key"], { signal: controller.signal });
      await reached.promise;
      controller.abort("enough");
      await expect(attempt).rejects.toBe("enough");
    },
  );
});

describe("batch", () => {
  const echo = () =>
    fetchDouble(({ body }) => {
      const commands: Command[] = JSON.parse(body);
      return answer(
        200,
        commands.map(([name, arg]) => (name === "FAIL" ? { error: `ERR ${arg}` } : { result: arg })),
      );
    });
  const batching = (double: ReturnType<typeof fetchDouble>): CommandClient =>
    restClient({ ...settings, fetch: double.fetch, batch: true });

  test("commands issued together are one request, and each gets its own reply or error", async () => {
    const double = echo();
    const client = batching(double);
    const commands = [
      ["ECHO", "a"],
      ["FAIL", "b"],
      ["ECHO", "c"],
    ] as const;
    const outcomes = await Promise.allSettled(commands.map((command) => client.execute(command)));
    expect(outcomes).toMatchObject([
      { value: "a" },
      { reason: { name: "ReplyError", code: "ERR", message: "ERR b" } },
      { value: "c" },
    ]);
    expect(double.calls.map(({ url, body }) => [url, JSON.parse(body)])).toEqual([
      ["https://example.test/pipeline", commands],
    ]);
  });

  test("64 loops whose steps differ in length share their requests round by round", async () => {
    const double = echo();
    const client = batching(double);
    const loop = async (index: number): Promise<void> => {
      for (let round = 0; round < 10; round++) {
        expect(await client.execute(["ECHO", `${index}:${round}`])).toBe(`${index}:${round}`);
        for (let hop = 0; hop < (index + round) % 20; hop++) await undefined;
      }
    };
    await Promise.all(Array.from({ length: 64 }, (_, index) => loop(index)));
    expect(double.calls).toHaveLength(10);
  });

  test("more than a thousand commands are split", async () => {
    const double = echo();
    const client = batching(double);
    const words = Array.from({ length: 2500 }, (_, index) => `${index}`);
    expect(await Promise.all(words.map((word) => client.execute(["ECHO", word])))).toEqual(words);
    expect(double.calls.map(({ body }) => JSON.parse(body).length)).toEqual([1000, 1000, 500]);
  });

  test("a full batch that goes out leaves the next one open", async () => {
    const double = echo();
    const client = batching(double);
    const replies = Array.from({ length: 1000 }, () => client.execute(["ECHO", "full"]));
    for (let turn = 0; turn < 40; turn++) await undefined;
    replies.push(client.execute(["ECHO", "next"]));
    for (let turn = 0; turn < 40; turn++) await undefined;
    expect(double.calls).toHaveLength(1);
    replies.push(client.execute(["ECHO", "next"]));
    await Promise.all(replies);
    expect(double.calls.map(({ body }) => JSON.parse(body).length)).toEqual([1000, 2]);
  });

  test("a command issued while a batch is under way goes out in the next one", async () => {
    const response = gate<Response>();
    const sent = gate<void>();
    const double = fetchDouble(({ body }) => {
      sent.open();
      return JSON.parse(body)[0][1] === "a" ? response.promise : answer(200, [{ result: "b" }]);
    });
    const client = batching(double);
    const first = client.execute(["ECHO", "a"]);
    await sent.promise;
    expect(await client.execute(["ECHO", "b"])).toBe("b");
    response.open(answer(200, [{ result: "a" }]));
    expect(await first).toBe("a");
    expect(double.calls).toHaveLength(2);
  });

  test("a command that is aborted leaves the others, and the request ends when all are", async () => {
    const response = gate<Response>();
    const sent = gate<void>();
    const double = fetchDouble(() => {
      sent.open();
      return response.promise;
    });
    const client = batching(double);
    const [one, two] = [new AbortController(), new AbortController()];
    const first = client.execute(["ECHO", "a"], { signal: one.signal });
    const second = client.execute(["ECHO", "b"], { signal: two.signal });
    await sent.promise;
    one.abort("enough");
    await expect(first).rejects.toBe("enough");
    expect(double.calls[0]?.signal?.aborted).toBe(false);
    two.abort("enough too");
    await expect(second).rejects.toBe("enough too");
    expect(double.calls[0]?.signal?.aborted).toBe(true);
  });

  test("a command issued once all of a batch are aborted gets its reply, although that has not gone out yet", async () => {
    const double = echo();
    const client = batching(double);
    const controller = new AbortController();
    const first = client.execute(["ECHO", "a"], { signal: controller.signal });
    controller.abort("enough");
    expect(await first.catch(() => client.execute(["ECHO", "b"]))).toBe("b");
    expect(double.calls.map(({ body }) => JSON.parse(body))).toEqual([[["ECHO", "b"]]]);
  });

  test("a neighbour of an aborted command gets its reply", async () => {
    const response = gate<Response>();
    const sent = gate<void>();
    const double = fetchDouble(() => {
      sent.open();
      return response.promise;
    });
    const client = batching(double);
    const controller = new AbortController();
    const first = client.execute(["ECHO", "a"], { signal: controller.signal });
    const second = client.execute(["ECHO", "b"]);
    await sent.promise;
    controller.abort("enough");
    await expect(first).rejects.toBe("enough");
    response.open(answer(200, [{ result: "a" }, { result: "b" }]));
    expect(await second).toBe("b");
  });

  test("a command aborted before its batch goes out ends at once, and one aborted before it is issued is not sent", async () => {
    const double = echo();
    const client = batching(double);
    const controller = new AbortController();
    const first = client.execute(["ECHO", "a"], { signal: controller.signal });
    const second = client.execute(["ECHO", "b"]);
    controller.abort("enough");
    await expect(first).rejects.toBe("enough");
    expect(await second).toBe("b");
    const alone = client.execute(["ECHO", "c"], { signal: AbortSignal.abort("too late") });
    await expect(alone).rejects.toBe("too late");
    await new Promise((resolve) => setImmediate(resolve));
    expect(double.calls).toHaveLength(1);
    const together = [
      client.execute(["ECHO", "d"]),
      client.execute(["ECHO", "e"], { signal: AbortSignal.abort("too late") }),
    ];
    expect(await Promise.allSettled(together)).toMatchObject([{ value: "d" }, { reason: "too late" }]);
    expect(JSON.parse(double.calls[1]?.body ?? "")).toEqual([["ECHO", "d"]]);
  });

  test.for([
    [401, { error: "Unauthorized" }, { name: "ReplyError", code: "WRONGPASS" }],
    [400, { error: "ERR max request size exceeded" }, { name: "ReplyError", code: "ERR" }],
    [502, "<html>", { name: "Error" }],
    [200, { result: "OK" }, { name: "Error" }],
    [200, [{ result: "OK" }], { name: "Error" }],
    [200, [{ result: "OK" }, { result: "OK" }, { result: "OK" }], { name: "Error" }],
  ] as const)("%i with %j for two commands fails both", async ([status, body, error]) => {
    const client = batching(fetchDouble(() => answer(status, body)));
    const outcomes = await Promise.allSettled([client.execute(["ECHO", "a"]), client.execute(["ECHO", "b"])]);
    expect(outcomes).toMatchObject([{ reason: error }, { reason: error }]);
  });

  test("batch is refused on Cloudflare Workers, where requests must not share", async () => {
    vi.stubGlobal("navigator", { userAgent: "Cloudflare-Workers" });
    const double = echo();
    await expect(batching(double).execute(["ECHO", "a"])).rejects.toMatchObject({ code: "config" });
    expect(double.calls).toEqual([]);
    expect(
      await restClient({ ...settings, fetch: double.fetch })
        .execute(["ECHO", "a"])
        .catch(() => "sent"),
    ).toBe("sent");
  });
});

afterEach(() => {
  vi.useRealTimers();
  vi.unstubAllGlobals();
});
