import { Redis as Upstash } from "@upstash/redis";
import { Hono } from "hono";
import { Redis } from "ioredis";
import { afterAll, beforeAll, beforeEach, describe, expect, test, vi } from "vitest";
import { ioredisClient } from "../../adapters/ioredis.ts";
import { type RestServerOptions, restServer } from "../../adapters/rest-server.ts";
import { isSame } from "../../adapters/rest-server-token.ts";
import { type Command, type CommandClient, type Reply, ReplyError } from "../../src/command.ts";
import { gate } from "../support/fetch-double.ts";
import { describeRedis, type RunningRestServer, startRestRedis, startRestServer } from "../support/redis.ts";

type Behaviour = (command: Command) => Reply | Promise<Reply>;

/** An app in front of a client that behaves as told, and the commands that reached it. */
function serve(behaviour: Behaviour, options: Partial<RestServerOptions> = {}) {
  const commands: Command[] = [];
  const client: CommandClient = {
    async execute(command) {
      commands.push(command);
      return behaviour(command);
    },
  };
  const app = restServer(client, { token: "server-token", ...options });
  const post = async (path: string, body: unknown, headers: Record<string, string> = {}) => {
    const response = await app.request(path, {
      method: "POST",
      headers: { authorization: "Bearer server-token", ...headers },
      body: typeof body === "string" ? body : JSON.stringify(body),
    });
    return [response.status, await response.json()];
  };
  return { app, commands, post };
}

describe("answers", () => {
  test.for([null, "OK", "", "grüße", 0, [1, "x", null, [2, []]]])("the reply %j is the result", async (reply) => {
    const { post, commands } = serve(() => reply);
    expect(await post("/", ["GET", "key"])).toEqual([200, { result: reply }]);
    expect(commands).toEqual([["GET", "key"]]);
  });

  test("numbers and booleans in a command are passed on as Redis takes them", async () => {
    const { post, commands } = serve(() => "OK");
    await post("/", ["SET", "key", true, "PX", 1000]);
    expect(commands).toEqual([["SET", "key", "true", "PX", 1000]]);
  });

  const failing: Behaviour = ([, key]) => {
    if (key === "wrong") throw new ReplyError("WRONGTYPE Operation against a key");
    if (key === "lost") throw new Error("read ECONNRESET redis://:redis-password@10.0.0.1");
    return String(key);
  };

  test("an error from Redis is a 400, and one element of a pipeline's 200", async () => {
    const { post } = serve(failing);
    const error = "WRONGTYPE Operation against a key";
    expect(await post("/", ["GET", "wrong"])).toEqual([400, { error }]);
    const commands = [
      ["GET", "a"],
      ["GET", "wrong"],
      ["GET", "b"],
    ];
    const answers = [{ result: "a" }, { error }, { result: "b" }];
    expect(await post("/pipeline", commands)).toEqual([200, answers]);
    expect(await post("/multi-exec", commands)).toEqual([200, answers]);
  });

  test.for(["/", "/pipeline", "/multi-exec"])(
    "an unknown outcome on %s is a 500 that tells no secret",
    async (path) => {
      const { post } = serve(failing);
      const body =
        path === "/"
          ? ["GET", "lost"]
          : [
              ["GET", "a"],
              ["GET", "lost"],
            ];
      const [status, answer] = await post(path, body);
      expect([status, answer]).toEqual([500, { error: expect.stringMatching(/^Cannot reach Redis/) }]);
      expect(JSON.stringify(answer)).not.toMatch(/redis-password|10\.0\.0\.1/);
    },
  );

  test("/pipeline issues its commands at once and in order, /multi-exec one after another", async () => {
    const first = gate<string>();
    const { post, commands } = serve(([, key]) => (key === "a" ? first.promise : String(key)));
    const list = [
      ["GET", "a"],
      ["GET", "b"],
    ];
    const pipeline = post("/pipeline", list);
    await vi.waitFor(() => expect(commands).toEqual(list));
    const transaction = post("/multi-exec", list);
    await vi.waitFor(() => expect(commands).toHaveLength(3));
    first.open("a");
    expect(await pipeline).toEqual([200, [{ result: "a" }, { result: "b" }]]);
    expect(await transaction).toEqual([200, [{ result: "a" }, { result: "b" }]]);
    expect(commands).toEqual([...list, ...list]);
  });
});

test("/multi-exec waits for each of its commands before the next", async () => {
  const second = gate<string>();
  const { post, commands } = serve(([, key]) => (key === "b" ? second.promise : String(key)));
  const list = ["a", "b", "c"].map((key) => ["GET", key]);
  const answered = post("/multi-exec", list);
  await vi.waitFor(() => expect(commands).toHaveLength(2));
  await new Promise((resolve) => setImmediate(resolve));
  expect(commands).toHaveLength(2);
  second.open("b");
  expect(await answered).toEqual([200, [{ result: "a" }, { result: "b" }, { result: "c" }]]);
});

describe("encoding", () => {
  const headers = { "upstash-encoding": "base64" };

  test("base64 applies to every string except OK, and to nothing else", async () => {
    const { post } = serve(() => ["value", "OK", "", "grüße", 7, null, ["OK!", []]]);
    const result = ["dmFsdWU=", "OK", "", "Z3LDvMOfZQ==", 7, null, ["T0sh", []]];
    expect(await post("/", ["X"], headers)).toEqual([200, { result }]);
    expect(await post("/pipeline", [["X"]], headers)).toEqual([200, [{ result }]]);
  });

  test("errors are not encoded", async () => {
    const { post } = serve(() => {
      throw new ReplyError("ERR no");
    });
    expect(await post("/", ["X"], headers)).toEqual([400, { error: "ERR no" }]);
    expect(await post("/pipeline", [["X"]], headers)).toEqual([200, [{ error: "ERR no" }]]);
  });

  test("another encoding is not applied", async () => {
    const { post } = serve(() => "value");
    expect(await post("/", ["X"], { "upstash-encoding": "other" })).toEqual([200, { result: "value" }]);
  });
});

describe("requests that are refused", () => {
  test.for([
    undefined,
    "",
    "server-token",
    "Bearer",
    "Bearer server-toke",
    "Bearer server-token-and-more",
    "bearer server-token",
    "Basic server-token",
  ])("the authorization %j is a 401, and nothing runs", async (authorization) => {
    const { app, commands } = serve(() => "OK");
    const headers: Record<string, string> = authorization === undefined ? {} : { authorization };
    for (const path of ["/", "/pipeline", "/multi-exec", "/nowhere"]) {
      const response = await app.request(path, { method: "POST", headers, body: '["PING"]' });
      expect([response.status, await response.json()]).toEqual([401, { error: expect.stringMatching(/^WRONGPASS /) }]);
    }
    expect(commands).toEqual([]);
  });

  test("tokens are compared to their ends, however much of a guess is right", () => {
    const secret = "Bearer server-token";
    const looked = vi.spyOn(String.prototype, "charCodeAt");
    for (const guess of ["", "B", "Bearer server-tokem", secret, `${secret}s`, "x".repeat(100)]) {
      looked.mockClear();
      expect(isSame(guess, secret)).toBe(guess === secret);
      expect(looked).toHaveBeenCalledTimes(2 * secret.length);
    }
    looked.mockRestore();
  });

  test.for([
    ["/", ""],
    ["/", "not JSON"],
    ["/", "{}"],
    ["/", "[]"],
    ["/", "[1]"],
    ["/", '["GET",null]'],
    ["/", '["GET",["key"]]'],
    ["/", '[["GET","key"]]'],
    ["/pipeline", "[]"],
    ["/pipeline", '["GET","key"]'],
    ["/pipeline", '[["GET","key"],[]]'],
    ["/multi-exec", '[["GET","key"],"GET"]'],
    ["/multi-exec", "{}"],
    ["/pipeline", '"GET"'],
  ] as const)("%s with the body %s is a 400 with one error, and nothing runs", async ([path, body]) => {
    const { post, commands } = serve(() => "OK");
    expect(await post(path, body)).toEqual([400, { error: expect.stringMatching(/^ERR failed to parse/) }]);
    expect(commands).toEqual([]);
  });

  test.for<[command: Command]>([
    [["SELECT", 3]],
    [["multi"]],
    [["XREAD", "COUNT", 1, "block", 0, "STREAMS", "s", "$"]],
    [["xreadgroup", "GROUP", "g", "c", "BLOCK", 0, "STREAMS", "s", ">"]],
    [["valueOf"]],
  ])("%j is a 400, as it would change or hold what all share, and does not run", async ([command]) => {
    const { post, commands } = serve(() => "OK");
    const error = `ERR Command is not available: '${command[0]}'`;
    expect(await post("/", command)).toEqual([400, { error }]);
    expect(await post("/pipeline", [command, ["PING"]])).toEqual([200, [{ error }, { result: "OK" }]]);
    expect(commands).toEqual([["PING"]]);
  });

  test.for<[command: Command]>([
    [["XREAD", "COUNT", 1, "STREAMS", "s", "0"]],
    [["XADD", "s", "*", "kind", "BLOCK"]],
    [["SET", "SELECT", "valueOf"]],
  ])("%j only looks like one of these, and runs", async ([command]) => {
    const { post, commands } = serve(() => "OK");
    expect(await post("/", command)).toEqual([200, { result: "OK" }]);
    expect(commands).toEqual([command]);
  });

  test("a body over the limit is a 413, whether it says its length or not", async () => {
    const { app, post, commands } = serve(() => "OK", { maxBodyBytes: 100 });
    const fits = JSON.stringify(["SET", "key", "x".repeat(84)]);
    expect(fits).toHaveLength(100);
    expect(await post("/", fits)).toEqual([200, { result: "OK" }]);
    expect(await post("/", fits, { "content-length": "100" })).toEqual([200, { result: "OK" }]);
    const tooLong = `${fits} `;
    const error = "ERR max request size exceeded";
    expect(await post("/", tooLong)).toEqual([413, { error }]);
    expect(await post("/", tooLong, { "content-length": "101" })).toEqual([413, { error }]);
    const stream = new Blob([tooLong]).stream();
    const headers = { authorization: "Bearer server-token" };
    const init: RequestInit & { duplex: "half" } = { method: "POST", headers, body: stream, duplex: "half" };
    expect((await app.request("/", init)).status).toBe(413);
    expect(commands).toHaveLength(2);
  });

  test("other methods are a 405 that names POST, other paths a 404", async () => {
    const { app, post } = serve(() => "OK");
    const headers = { authorization: "Bearer server-token" };
    for (const path of ["/", "/pipeline", "/multi-exec"]) {
      for (const method of ["GET", "HEAD", "PUT", "DELETE"]) {
        const response = await app.request(path, { method, headers });
        expect([response.status, response.headers.get("allow")]).toEqual([405, "POST"]);
      }
    }
    expect(await post("/set/key/value", [])).toEqual([404, { error: expect.stringMatching(/^ERR unknown path/) }]);
  });

  test.for([
    { token: "" },
    { token: "  " },
    { token: "two words" },
    { token: "grün" },
    { maxBodyBytes: 0 },
    { maxBodyBytes: Number.NaN },
    { maxBodyBytes: "500" as unknown as number },
    { maxBodyBytes: Symbol("s") as unknown as number },
  ])("%o is refused when the app is made", (options) => {
    expect(() => serve(() => "OK", options)).toThrow(expect.objectContaining({ name: "LockError", code: "config" }));
  });

  test.for([[undefined], [null], [{}], ["redis://127.0.0.1:6379"]])("%o is no client", ([client]) => {
    expect(() => restServer(client as CommandClient, { token: "t" })).toThrow(
      expect.objectContaining({ code: "config", message: expect.stringMatching(/^Cannot use client as /) }),
    );
  });
});

test("a line break that comes with the token is none of it", async () => {
  const { post } = serve(() => "PONG", { token: "server-token\n" });
  expect(await post("/", ["PING"])).toEqual([200, { result: "PONG" }]);
});

test("the app can be mounted under a path of another one", async () => {
  const { app } = serve(() => "PONG");
  const outer = new Hono().route("/redis", app).get("/health", (c) => c.text("well"));
  const request = { method: "POST", headers: { authorization: "Bearer server-token" }, body: '["PING"]' };
  expect(await (await outer.request("/redis", request)).json()).toEqual({ result: "PONG" });
  expect((await outer.request("/redis/pipeline", request)).status).toBe(400);
  expect((await outer.request("/redis/nowhere", request)).status).toBe(404);
  expect(await (await outer.request("/health")).text()).toBe("well");
});

describeRedis("@upstash/redis in front of restServer()", () => {
  let server: RunningRestServer;

  beforeAll(async () => {
    server = await startRestRedis();
  });
  afterAll(() => server.stop());
  beforeEach(() => {
    server.requests.length = 0;
  });

  const connect = (options: Record<string, unknown> = {}): Upstash =>
    new Upstash({ url: server.url, token: server.token, enableTelemetry: false, ...options });

  test.for([true, false])("its values survive with base64 %j", async (encoded) => {
    const redis = connect(encoded ? {} : { responseEncoding: false });
    for (const value of ["bar", "OK", "dmFsdWU=", "grüße ☃ 😀", ""]) {
      expect(await redis.set("text", value)).toBe("OK");
      expect(await redis.get("text")).toBe(value);
    }
    await redis.set("object", { a: [1, "x", null] });
    expect(await redis.get("object")).toEqual({ a: [1, "x", null] });
    expect(await redis.get("missing")).toBeNull();
    expect(await redis.eval("return {1,KEYS[1],false,{ARGV[1],'OK'}}", ["key"], ["arg"])).toEqual([
      1,
      "key",
      null,
      ["arg", "OK"],
    ]);
  });

  test("its automatic pipelining arrives as one request", async () => {
    const redis = connect();
    expect(await Promise.all([redis.incr("n"), redis.incr("n"), redis.incr("n")])).toEqual([1, 2, 3]);
    expect(server.requests).toEqual(["/pipeline"]);
  });

  test("without it each command is one request", async () => {
    const redis = connect({ enableAutoPipelining: false });
    expect(await redis.echo("hello")).toBe("hello");
    expect(server.requests).toEqual(["/"]);
  });

  test("its multi() arrives at /multi-exec", async () => {
    const replies = await connect().multi().set("a", "1").incr("a").get("a").exec();
    expect(replies).toEqual(["OK", 2, 2]);
    expect(server.requests).toEqual(["/multi-exec"]);
  });

  test("an error from Redis becomes its own error, with the text of Redis", async () => {
    const redis = connect({ enableAutoPipelining: false });
    await redis.rpush("list", "item");
    await expect(redis.get("list")).rejects.toThrow(/WRONGTYPE Operation against a key/);
    await expect(connect({ token: "wrong", retry: false }).ping()).rejects.toThrow(/WRONGPASS/);
  });

  test("a body over the limit leaves the server answering", async () => {
    const small = await startRestServer(ioredisClient(new Redis({ lazyConnect: true })), { maxBodyBytes: 1000 });
    try {
      const headers = { authorization: `Bearer ${small.token}` };
      for (let attempt = 0; attempt < 3; attempt++) {
        const body = JSON.stringify(["SET", "key", "x".repeat(1_000_000)]);
        const response = await fetch(small.url, { method: "POST", headers, body });
        expect([response.status, await response.json()]).toEqual([413, { error: "ERR max request size exceeded" }]);
      }
    } finally {
      await small.stop();
    }
  });
});
