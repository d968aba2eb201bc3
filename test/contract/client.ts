/**
 * What every adapter must keep to: one suite, written once. A test of an adapter builds its client and calls
 *
 * ```ts
 * describeRedis("ioredis.ts", () => {
 *   clientContract("ioredisClient", async () => {
 *     const server = await startRedis();
 *     const redis = new Redis(server.port, "127.0.0.1");
 *     return {
 *       client: ioredisClient(redis),
 *       pid: server.pid,
 *       async close() {
 *         redis.disconnect();
 *         await server.stop();
 *       },
 *     };
 *   });
 * });
 * ```
 *
 * `build` is called once; the suite uses keys of its own and closes the client at its end.
 *
 * @module
 */
import { inspect } from "node:util";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { type Command, type CommandClient, isReplyError, type Reply } from "../../src/command.ts";
import { rejection } from "../support/rejection.ts";

/** What `build` hands to {@link clientContract}. */
export interface ClientUnderTest {
  readonly client: CommandClient;
  /** The process of the `redis-server` behind the client, which is paused to see what an abort does. */
  readonly pid?: number;
  /** Passwords and REST tokens in use: none of them may be printed. */
  readonly secrets?: readonly string[];
  close(): Promise<void>;
}

/** What an adapter cannot do, and so is not asked for. */
export interface ClientContractOptions {
  /** Set where the foreign client parses values that look like JSON, and none of its options can stop it. */
  readonly parsesValues?: boolean;
  /** Set where only the scripts of this package run: EVAL of any other is left out. */
  readonly onlyOwnScripts?: boolean;
}

const texts = ["a", "a12345", "", "grüße ☃ 😀 漢字", 'back\\slash "quote" \0 \r\n\t', "OK", "dmFsdWU="];
const jsonTexts = ["12345", "007", "1e3", "true", "null", '{"a":1}', "[1,2]", '"quoted"'];

/** Registers the suite under the name of the adapter. */
export function clientContract(
  name: string,
  build: () => Promise<ClientUnderTest>,
  options: ClientContractOptions = {},
): void {
  describe(name, () => contractTests(build, options));
}

function contractTests(
  build: () => Promise<ClientUnderTest>,
  { parsesValues = false, onlyOwnScripts = false }: ClientContractOptions,
): void {
  let built: ClientUnderTest | undefined;
  beforeAll(async () => {
    built = await build();
  });
  afterAll(() => built?.close());

  const subject = (): ClientUnderTest => built ?? expect.fail("Cannot run as build() failed");
  const execute = (...command: Command): Promise<Reply> => subject().client.execute(command);
  const failure = (...command: Command): Promise<unknown> => rejection(execute(...command));

  basicTests(execute);
  test.for(parsesValues ? texts : [...texts, ...jsonTexts])("the text %j comes back as it was stored", async (text) => {
    const key = freshKey();
    expect(await execute("SET", key, text)).toBe("OK");
    expect(await execute("GET", key)).toBe(text);
  });
  if (!onlyOwnScripts) scriptTests(execute, failure, subject);
  errorTests(execute, failure, subject);
  abortTests(execute, subject);

  test("label holds no credentials", () => {
    const { client, secrets = [] } = subject();
    expect(client.label ?? "").not.toContain("@");
    for (const secret of secrets) expect(client.label ?? "").not.toContain(secret);
  });
}

type Execute = (...command: Command) => Promise<Reply>;
type Failure = (...command: Command) => Promise<unknown>;

function basicTests(execute: Execute): void {
  test("execute() resolves to strings, numbers and null as Redis sent them", async () => {
    const key = freshKey();
    expect(await execute("PING")).toBe("PONG");
    expect(await execute("ECHO", "hello")).toBe("hello");
    expect(await execute("GET", key)).toBeNull();
    expect(await execute("SET", key, "one", "NX")).toBe("OK");
    expect(await execute("SET", key, "two", "NX")).toBeNull();
    expect(await execute("GET", key)).toBe("one");
    expect(await execute("DEL", key)).toBe(1);
    expect(await execute("DEL", key)).toBe(0);
    expect(await execute("INCR", key)).toBe(1);
    expect(await execute("INCR", key)).toBe(2);
  });

  test("execute() resolves to arrays with null where a value is missing", async () => {
    const [one, two] = [freshKey(), freshKey()];
    await execute("SET", one, "value");
    expect(await execute("MGET", one, two)).toEqual(["value", null]);
  });

  test("execute() takes numbers as arguments", async () => {
    const key = freshKey();
    await execute("SET", key, "value", "PX", 60_000);
    const left = await execute("PTTL", key);
    expect(left).toSatisfy((ms) => Number.isSafeInteger(ms) && ms > 0 && ms <= 60_000);
    expect(await execute("PTTL", freshKey())).toBe(-2);
    expect(await execute("INCRBY", freshKey(), -42)).toBe(-42);
  });

  test("integers up to 2^52, the largest fence, are exact", async () => {
    const key = freshKey();
    expect(await execute("INCRBY", key, 2 ** 52 - 1)).toBe(2 ** 52 - 1);
    expect(await execute("INCR", key)).toBe(2 ** 52);
  });

  // A client may round there, or give digits as text; ioredis rounds 2^53 - 1 already. Nothing may depend on which.
  test("integers around 2^53 come back near enough, as a number or as digits", async () => {
    const key = freshKey();
    await execute("SET", key, "9007199254740992");
    const reply = await execute("INCR", key);
    expect(["number", "string"]).toContain(typeof reply);
    expect(Math.abs(Number(reply) - 2 ** 53)).toBeLessThanOrEqual(2);
  });

  test("a hundred concurrent commands keep their own replies", async () => {
    const words = Array.from({ length: 100 }, (_, index) => `word-${index}`);
    expect(await Promise.all(words.map((word) => execute("ECHO", word)))).toEqual(words);
  });
}

function scriptTests(execute: Execute, failure: Failure, subject: () => ClientUnderTest): void {
  test.for([
    ["{1,'x',false,{2,{}}}", [1, "x", null, [2, []]]],
    ["{1,nil,3}", [1]],
    ["3.99", 3],
    ["true", 1],
    ["false", null],
    ["{KEYS[1],ARGV[1]}", ["a-key", "an-argument"]],
    ["redis.status_reply('FINE')", "FINE"],
  ] as const)("EVAL of %s resolves to %j", async ([source, reply]) => {
    expect(await execute("EVAL", `return ${source}`, 1, "a-key", "an-argument")).toEqual(reply);
  });

  test("EVALSHA of an unknown script rejects with NOSCRIPT, and runs once EVAL has been seen", async () => {
    const { client } = subject();
    expect(await failure("EVALSHA", "f".repeat(40), 0)).toSatisfy(isReplyError);
    expect(await failure("EVALSHA", "f".repeat(40), 0)).toHaveProperty("code", "NOSCRIPT");
    if (client.cachesScripts !== true) return;
    await execute("EVAL", "return 'cached'", 0);
    // SHA-1 of the source above.
    expect(await execute("EVALSHA", "952f49ffc8f7b098d8ab5da45d3164ca36ed18b1", 0)).toBe("cached");
  });

  test("an error inside a script rejects with its own code", async () => {
    const list = freshKey();
    await execute("RPUSH", list, "item");
    expect(await failure("EVAL", "return redis.call('INCR', KEYS[1])", 1, list)).toHaveProperty("code", "WRONGTYPE");
    expect(await failure("EVAL", "return redis.error_reply('OOM no room')", 0)).toHaveProperty("code", "OOM");
  });
}

function errorTests(execute: Execute, failure: Failure, subject: () => ClientUnderTest): void {
  test("an error from Redis rejects with a ReplyError that has its code and text", async () => {
    const [list, word] = [freshKey(), freshKey()];
    await execute("RPUSH", list, "item");
    await execute("SET", word, "value");
    const wrongType = await failure("GET", list);
    expect(wrongType).toSatisfy(isReplyError);
    expect(wrongType).toMatchObject({ code: "WRONGTYPE", message: expect.stringMatching(/^WRONGTYPE Operation/) });
    expect(await failure("INCR", word)).toMatchObject({
      code: "ERR",
      message: expect.stringContaining("not an integer"),
    });
  });

  test("errors carry neither the command nor anything else of the foreign client", async () => {
    const { secrets = [] } = subject();
    const [list, secret] = [freshKey(), "lease-token-that-must-not-be-logged"];
    await execute("RPUSH", list, "item");
    const error = await failure("SET", list, secret, "GET");
    expect(error).toSatisfy(isReplyError);
    const allowed = ["stack", "message", "name", "code"];
    expect(Object.getOwnPropertyNames(error).filter((field) => !allowed.includes(field))).toEqual([]);
    const printed = inspect(error, { depth: null, showHidden: true });
    for (const word of [secret, ...secrets]) expect(printed).not.toContain(word);
  });
}

function abortTests(execute: Execute, subject: () => ClientUnderTest): void {
  test("a signal that has aborted before rejects with its reason, and sends nothing", async () => {
    const key = freshKey();
    const reason = new Error("too late");
    const { client } = subject();
    const attempt = client.execute(["SET", key, "value"], { signal: AbortSignal.abort(reason) });
    expect(await rejection(attempt)).toBe(reason);
    expect(await execute("GET", key)).toBeNull();
  });

  test("a signal that aborts after the reply changes nothing", async () => {
    const controller = new AbortController();
    expect(await subject().client.execute(["PING"], { signal: controller.signal })).toBe("PONG");
    controller.abort();
    expect(await execute("PING")).toBe("PONG");
  });

  test("a signal that aborts while Redis is silent rejects with its reason, and leaves later commands alone", async () => {
    const { client, pid } = subject();
    if (pid === undefined) return; // In-process clients answer at once.
    const controller = new AbortController();
    const reason = new Error("enough");
    process.kill(pid, "SIGSTOP");
    try {
      const attempt = rejection(client.execute(["PING"], { signal: controller.signal }));
      await new Promise((resolve) => setImmediate(resolve));
      controller.abort(reason);
      expect(await attempt).toBe(reason);
    } finally {
      process.kill(pid, "SIGCONT");
    }
    expect(await execute("ECHO", "after")).toBe("after");
  });
}

let keys = 0;

function freshKey(): string {
  keys += 1;
  return `contract:${keys}`;
}
