/**
 * Public reports on Redis over HTTP, as far as `restClient` and `restServer` answer for them.
 */
import { createServer, type ServerResponse } from "node:http";
import { inspect } from "node:util";
import { build } from "esbuild";
import { convertV4MiniflareOptions, Miniflare } from "miniflare";
import { afterEach, describe, expect, test } from "vitest";
import { restClient } from "../../adapters/rest.ts";
import { restServer } from "../../adapters/rest-server.ts";
import { type CommandClient, type Reply, ReplyError } from "../../src/command.ts";
import { createLock } from "../../src/index.ts";
import { answer, fetchDouble, gate, watched } from "../support/fetch-double.ts";
import { listen, startRestServer } from "../support/redis.ts";
import { lockError, rejection } from "../support/rejection.ts";

const settings = { url: "https://example.test", token: "rest-token" };
const lockCode = (code: string): unknown => expect.objectContaining({ name: "LockError", code });
const replyCode = (code: string): unknown => expect.objectContaining({ name: "ReplyError", code });

/** Knows SET, GET and ECHO; every other command is an error. */
function tinyRedis(): CommandClient {
  const values = new Map<unknown, Reply>();
  return {
    async execute([name, key, value = null]) {
      if (name === "ECHO") return key ?? null;
      if (name === "GET") return values.get(key) ?? null;
      if (name !== "SET") throw new ReplyError(`ERR unknown command '${name}'`);
      values.set(key, value);
      return "OK";
    },
  };
}

const stops: (() => unknown)[] = [];
afterEach(async () => {
  for (const stop of stops.splice(0)) await stop();
});

describe("F02 base64 mode", () => {
  const words = ["bar", "dmFsdWU=", "OK", "T0s=", "grüße"];

  test("F02 values come back verbatim from a server that knows the header, and it is not asked to encode", async () => {
    const server = restServer(tinyRedis(), { token: settings.token });
    const { fetch, calls } = fetchDouble(({ url, ...request }) => server.request(url, request));
    const client = restClient({ ...settings, fetch });
    for (const word of words) {
      expect(await client.execute(["SET", "key", word])).toBe("OK");
      expect(await client.execute(["GET", "key"])).toBe(word);
    }
    expect(calls.flatMap(({ headers }) => Object.keys(headers))).not.toContainEqual(expect.stringMatching(/encoding/i));
  });

  test("F02 values come back verbatim from a server that does not know the header", async () => {
    const { fetch } = fetchDouble(({ body }) => answer(200, { result: JSON.parse(body)[1] }));
    const client = restClient({ ...settings, fetch });
    for (const word of words) expect(await client.execute(["ECHO", word])).toBe(word);
  });

  test("F02 restServer encodes when asked, as the real service does", async () => {
    const server = restServer(tinyRedis(), { token: settings.token });
    const ask = async (word: string, headers: Record<string, string>): Promise<unknown> => {
      const authorization = `Bearer ${settings.token}`;
      const body = JSON.stringify(["ECHO", word]);
      return (await server.request("/", { method: "POST", headers: { authorization, ...headers }, body })).json();
    };
    const encoded = await Promise.all(words.map((word) => ask(word, { "Upstash-Encoding": "base64" })));
    expect(encoded).toEqual(["YmFy", "ZG1Gc2RXVT0=", "OK", "VDBzPQ==", "Z3LDvMOfZQ=="].map((result) => ({ result })));
    expect(await Promise.all(words.map((word) => ask(word, {})))).toEqual(words.map((result) => ({ result })));
  });
});

describe("F07 fetch options that a runtime lacks", () => {
  test("F07 a fetch that throws on cache is served", async () => {
    const { fetch } = fetchDouble((call) => {
      if ("cache" in call) throw new Error("The 'cache' field on 'RequestInitializerDict' is not implemented");
      return answer(200, { result: "PONG" });
    });
    expect(await restClient({ ...settings, fetch }).execute(["PING"])).toBe("PONG");
  });

  test("F07 workerd with a compatibility date of 2024-09-01 passes a round of commands", {
    timeout: 30_000,
  }, async () => {
    const server = await startRestServer(tinyRedis(), { token: settings.token });
    stops.push(server.stop);
    const bundle = await build({
      stdin: { contents: workerSource, resolveDir: import.meta.dirname, loader: "ts" },
      bundle: true,
      format: "esm",
      write: false,
    });
    const worker = new Miniflare(
      convertV4MiniflareOptions({
        modules: true,
        script: bundle.outputFiles[0]?.text ?? "",
        compatibilityDate: "2024-09-01",
        bindings: { url: server.url, token: settings.token },
        cf: false,
      }),
    );
    stops.push(() => worker.dispose());
    const response = await worker.dispatchFetch("http://worker.test/");
    expect(await response.json()).toEqual({
      agent: "Cloudflare-Workers",
      set: "OK",
      get: "grüße",
      missing: null,
      failed: "ReplyError ERR",
      aborted: "enough",
      batch: "LockError config",
    });
  });

  // The client is made at global scope, where workerd forbids I/O, timers and random numbers.
  const workerSource = `
    import { restClient } from "../../adapters/rest.ts";
    const settings: { url?: string, token?: string } = {};
    const client = restClient({ get url() { return settings.url }, get token() { return settings.token } });
    const outcome = (promise: Promise<unknown>) => promise.catch((e) => e instanceof Error ? e.name + " " + e.code : e);
    export default {
      async fetch(request: Request, env: typeof settings) {
        Object.assign(settings, env);
        const controller = new AbortController();
        const aborted = client.execute(["GET", "key"], { signal: controller.signal });
        controller.abort("enough");
        return Response.json({
          agent: navigator.userAgent,
          set: await client.execute(["SET", "key", "grüße"], { signal: AbortSignal.timeout(5000) }),
          get: await client.execute(["GET", "key"]),
          missing: await client.execute(["GET", "other"]),
          failed: await outcome(client.execute(["NONE"])),
          aborted: await outcome(aborted),
          batch: await outcome(restClient({ ...env, batch: true }).execute(["GET", "key"])),
        });
      },
    };
  `;
});

describe("F09 errors inside a 200, and missing results", () => {
  const ask = (status: number, body: unknown): Promise<Reply> =>
    restClient({ ...settings, fetch: fetchDouble(() => answer(status, body)).fetch }).execute(["EVAL", "return 1", 0]);

  test.for([200, 400])("F09 an error in a body of status %i rejects with the code of Redis", async (status) => {
    await expect(ask(status, { error: "NOSCRIPT No matching script" })).rejects.toEqual(replyCode("NOSCRIPT"));
    await expect(ask(status, { error: "READONLY You can't write" })).rejects.toEqual(replyCode("READONLY"));
  });

  test.for([{}, "", '""'])("F09 a 200 with the body %j is an error of the protocol, never null", async (body) => {
    await expect(ask(200, body)).rejects.toThrow(/^status 200: /);
    await expect(ask(200, body)).rejects.not.toEqual(replyCode("ERR"));
  });

  test("F09 a null result is null", async () => {
    expect(await ask(200, { result: null })).toBeNull();
  });

  test("F09 a pipeline is told apart item by item", async () => {
    const items = [{ result: "a" }, { error: "WRONGTYPE Operation" }, {}];
    const client = restClient({ ...settings, batch: true, fetch: fetchDouble(() => answer(200, items)).fetch });
    const outcomes = await Promise.allSettled(items.map((_, index) => client.execute(["GET", `key-${index}`])));
    expect(outcomes).toMatchObject([
      { value: "a" },
      { reason: { name: "ReplyError", code: "WRONGTYPE" } },
      { reason: { name: "Error", message: expect.stringMatching(/^status 200: /) } },
    ]);
  });

  test("F09 EVAL goes out as a plain command", async () => {
    const { fetch, calls } = fetchDouble(() => answer(200, { result: 1 }));
    await restClient({ ...settings, fetch }).execute(["EVAL", "return 1", 1, "key", "arg"]);
    expect(calls.map(({ url, body }) => [url, JSON.parse(body)])).toEqual([
      [settings.url, ["EVAL", "return 1", 1, "key", "arg"]],
    ]);
  });
});

describe("F10 bodies that are no JSON", () => {
  const pages = [
    [502, `<html><body>Bad gateway for Bearer rest-token ${"x".repeat(9000)}</body></html>`],
    [503, `<html><body>No server is available: ${"x".repeat(9000)}</body></html>`],
    [530, "error code: 1016"],
    [504, ""],
  ] as const;

  test.for(pages)("F10 a %i gives its status and at most 200 characters, without the token", async ([status, page]) => {
    const { fetch } = fetchDouble(() => answer(status, page));
    const error = await rejection(restClient({ ...settings, fetch }).execute(["PING"]));
    expect(error).not.toBeInstanceOf(SyntaxError);
    const { message } = error as Error;
    const [, quoted = "none"] = /^status \d+: (.*)$/.exec(message) ?? [];
    expect(message).toContain(`status ${status}`);
    expect(quoted.length).toBeLessThanOrEqual(200);
    expect(page.startsWith(quoted)).toBe(true);
    expect(message).not.toContain("rest-token");
  });

  test.for(pages)("F10 a lock behind a %i is unavailable, not contended, and says so", async ([status, page]) => {
    const { fetch } = fetchDouble(() => answer(status, page));
    const lock = createLock(restClient({ ...settings, fetch }));
    const error = await rejection(lock.tryAcquire("name"));
    expect(error).toEqual(lockCode("unavailable"));
    expect(String(error)).toContain(`status ${status}: ${page.slice(0, 16).trim()}`);
    for (const printed of [String(error), inspect(error, { depth: 9 }), JSON.stringify(error)]) {
      expect(printed).not.toContain("rest-token");
      expect(printed).not.toContain("x".repeat(201));
    }
  });
});

describe("F12 credential mistakes", () => {
  test.for([
    ["a token that the server does not know", 401, { error: "WRONGPASS invalid or missing auth token" }, "WRONGPASS"],
    ["a proxy that wants other credentials", 401, "<html>401</html>", "WRONGPASS"],
    ["a token that may only read", 400, { error: "NOPERM this user has no permissions to run 'eval'" }, "NOPERM"],
  ] as const)("F12 %s is told by its code after one request", async ([, status, body, code]) => {
    const { fetch, calls } = fetchDouble(() => answer(status, body));
    const client = restClient({ ...settings, fetch });
    const error = await rejection(client.execute(["PING"]));
    expect(error).toEqual(replyCode(code));
    expect(String(error)).not.toContain(settings.token);
    expect(calls).toHaveLength(1);

    const refused = await lockError(createLock(client).acquire("name"), "config"); // which would wait for 10 s
    expect(refused.cause).toEqual(replyCode(code));
    for (const printed of [String(refused), inspect(refused, { depth: 9 }), JSON.stringify(refused)]) {
      expect(printed).not.toContain(settings.token);
    }
    expect(calls).toHaveLength(2);
  });

  test("F12 white space around the URL and the token is dropped", async () => {
    const { fetch, calls } = fetchDouble(() => answer(200, { result: "PONG" }));
    await restClient({ url: "https://x.test\n", token: " t ", fetch }).execute(["PING"]);
    expect(calls).toMatchObject([{ url: "https://x.test", headers: { authorization: "Bearer t" } }]);
  });

  test.for([
    ["url", { ...settings, url: "rediss://default:password@x.test:6379" }],
    ["url", { ...settings, url: undefined }],
    ["url", { ...settings, url: "password" }],
    ["token", { ...settings, token: undefined }],
    ["token", { ...settings, token: "pass word" }],
  ] as const)("F12 a wrong %s is refused at the first use, by name, and without a request", async ([option, wrong]) => {
    const { fetch, calls } = fetchDouble(() => answer(200, { result: "PONG" }));
    const client = restClient({ ...wrong, fetch });
    const error = await rejection(client.execute(["PING"]));
    for (const told of [error, await lockError(createLock(client).acquire("name"), "config")]) {
      expect(told).toEqual(lockCode("config"));
      expect(String(told)).toContain(`Cannot use ${option} as `);
      expect(String(told)).not.toMatch(/password|pass word/);
    }
    expect(calls).toEqual([]);
  });
});

describe("F16 unread response bodies", () => {
  test.for([
    [200, '{"result":"PONG"}'],
    [200, ""],
    [400, '{"error":"ERR no"}'],
    [401, '{"error":"WRONGPASS no"}'],
    [401, "<html>"],
    [429, "Too many requests"],
    [500, "<html>"],
    [301, "moved"],
  ] as const)("F16 the body of a %i is read to its end: %s", async ([status, text]) => {
    for (const batch of [false, true]) {
      const { response, ended } = watched(status, text);
      const { fetch } = fetchDouble(() => response);
      await restClient({ ...settings, batch, fetch })
        .execute(["PING"])
        .catch(() => {});
      expect(await ended).toBe("read");
    }
  });

  test("F16 a body that comes after the abort is read too", async () => {
    const late = gate<Response>();
    const { fetch } = fetchDouble(() => late.promise);
    const controller = new AbortController();
    const attempt = restClient({ ...settings, fetch }).execute(["PING"], { signal: controller.signal });
    controller.abort("enough");
    await expect(attempt).rejects.toBe("enough");
    const { response, ended } = watched(200, '{"result":"PONG"}');
    late.open(response);
    expect(await ended).toBe("read");
  });

  test("F16 an abort in the middle of a body ends the request on the wire", async () => {
    const halfSent = gate<ServerResponse>();
    const server = createServer((_request, response) => {
      response.write('{"result":', () => halfSent.open(response));
    });
    const port = await listen(server);
    stops.push(() => server.close());
    const controller = new AbortController();
    const client = restClient({ url: `http://127.0.0.1:${port}`, token: settings.token });
    const attempt = client.execute(["PING"], { signal: controller.signal });
    const response = await halfSent.promise;
    const closed = new Promise<string>((resolve) => response.once("close", () => resolve("closed")));
    controller.abort("enough");
    await expect(attempt).rejects.toBe("enough");
    expect(await closed).toBe("closed");
  });
});
