import { getEventListeners } from "node:events";
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { field, isCoded, isRedisText, isReplyError, ReplyError, toReply, untilAborted } from "../src/command.ts";
import { LockError } from "../src/errors.ts";
import { gate } from "./support/fetch-double.ts";
import { rejection } from "./support/rejection.ts";
import { settle } from "./support/virtual-clock.ts";

describe("toReply()", () => {
  const bytes = new TextEncoder().encode("日本");

  test.for<[what: string, value: unknown, reply: unknown]>([
    ["a text", "OK", "OK"],
    ["an empty text", "", ""],
    ["a text of digits", "007", "007"],
    ["nothing", null, null],
    ["zero", 0, 0],
    ["a negative number", -1, -1],
    ["the largest exact number", Number.MAX_SAFE_INTEGER, Number.MAX_SAFE_INTEGER],
    ["a fraction, as JSON has it", 1.5, 1.5],
    ["true of RESP3", true, 1],
    ["false of RESP3", false, 0],
    ["a bigint that a number can hold", 42n, 42],
    ["the largest such bigint", 2n ** 53n - 1n, Number.MAX_SAFE_INTEGER],
    ["the least such bigint", -(2n ** 53n) + 1n, Number.MIN_SAFE_INTEGER],
    ["a bigint that would lose digits", 2n ** 53n + 1n, "9007199254740993"],
    ["a negative bigint that would lose digits", -(2n ** 63n), "-9223372036854775808"],
    ["a Buffer", Buffer.from(bytes), "日本"],
    ["bytes", bytes, "日本"],
    ["a part of some bytes", bytes.subarray(0, 3), "日"],
    ["no bytes", new Uint8Array(), ""],
    ["an empty list", [], []],
    [
      "a list of all of these",
      [1n, true, null, "a", bytes, [false, [2n ** 60n]]],
      [1, 1, null, "a", "日本", [0, ["1152921504606846976"]]],
    ],
  ])("reads %s", ([, value, reply]) => {
    expect(toReply(value)).toStrictEqual(reply);
  });

  test.for<[what: string, value: unknown, type: string]>([
    ["undefined", undefined, "undefined"],
    ["an object", { result: "OK" }, "object"],
    ["a Map of RESP3", new Map([["a", 1]]), "object"],
    ["a Set of RESP3", new Set(["a"]), "object"],
    ["a Date", new Date(0), "object"],
    ["an error", new Error("OOM"), "object"],
    ["a boxed text", Object("OK"), "object"],
    ["the buffer behind bytes", new ArrayBuffer(1), "object"],
    ["a symbol", Symbol("OK"), "symbol"],
    ["a function", () => "OK", "function"],
  ])("refuses %s, alone and in a list: Redis cannot have sent it", ([, value, type]) => {
    const refusal = new TypeError(`Cannot read a reply of type ${type}`);
    expect(() => toReply(value)).toThrow(refusal);
    expect(() => toReply([1, [value]])).toThrow(refusal);
    expect(refusal).not.toSatisfy(isReplyError);
  });
});

describe("untilAborted()", () => {
  const unhandled: unknown[] = [];
  const note = (reason: unknown): void => void unhandled.push(reason);
  beforeEach(() => {
    process.on("unhandledRejection", note);
  });
  afterEach(async () => {
    await settle();
    process.off("unhandledRejection", note);
    expect(unhandled.splice(0)).toEqual([]);
  });

  test("without a signal settles as the promise does", async () => {
    expect(await untilAborted(Promise.resolve("OK"), undefined)).toBe("OK");
    await expect(untilAborted(Promise.reject(new Error("no")), undefined)).rejects.toThrow("no");
  });

  test("gives the value, and listens no longer", async () => {
    const { controller, listeners } = aborter();
    const { promise, open } = gate<string>();
    const result = untilAborted(promise, controller.signal);
    expect(listeners()).toBe(1);
    open("OK");
    expect(await result).toBe("OK");
    await settle();
    expect(listeners()).toBe(0);
    controller.abort(new Error("too late to matter"));
    expect(await result).toBe("OK");
  });

  test("gives the error, and listens no longer", async () => {
    const { controller, listeners } = aborter();
    const boom = new Error("boom");
    await expect(untilAborted(Promise.reject(boom), controller.signal)).rejects.toBe(boom);
    await settle();
    expect(listeners()).toBe(0);
  });

  test.for<[when: string, value: Promise<string>]>([
    ["nothing has come yet", new Promise(() => {})],
    ["the value is there", Promise.resolve("OK")],
  ])("rejects with the reason of a signal that has aborted already, where %s", async ([, value]) => {
    const { controller, listeners } = aborter();
    const reason = new Error("over");
    controller.abort(reason);
    await expect(untilAborted(value, controller.signal)).rejects.toBe(reason);
    expect(listeners()).toBe(0);
  });

  test("rejects as soon as the signal aborts, whatever becomes of the promise", async () => {
    const { controller, listeners } = aborter();
    const { promise, open } = gate<string>();
    const result = untilAborted(promise, controller.signal);
    const reason = new Error("time is up");
    controller.abort(reason);
    await expect(result).rejects.toBe(reason);
    expect(listeners()).toBe(0);
    open("late");
    await settle();
    await expect(result).rejects.toBe(reason);
  });

  test.for<[what: string, reason: unknown]>([
    ["null", null],
    ["a text", "enough"],
    ["zero", 0],
  ])("hands over a reason as it is: %s", async ([, reason]) => {
    const controller = new AbortController();
    const result = untilAborted(new Promise(() => {}), controller.signal);
    controller.abort(reason);
    expect(await rejection(result)).toBe(reason);
  });

  // afterEach looks for it.
  test.for(["before", "after"])(
    "leaves no rejection unhandled that comes when the signal has aborted %s the call",
    async (when) => {
      const controller = new AbortController();
      const { promise, open } = gate<Promise<never>>();
      if (when === "before") controller.abort("over");
      const result = untilAborted(promise, controller.signal);
      controller.abort("over");
      await expect(result).rejects.toBe("over");
      open(Promise.reject(new Error("late")));
      await settle();
    },
  );

  test("settles many that share a signal, and leaves no listener of any", async () => {
    const { controller, listeners } = aborter();
    const results = Array.from({ length: 20 }, () => untilAborted(new Promise(() => {}), controller.signal));
    expect(listeners()).toBe(20);
    controller.abort("over");
    expect((await Promise.allSettled(results)).map(({ status }) => status)).toEqual(results.map(() => "rejected"));
    expect(listeners()).toBe(0);
  });
});

/** A controller, and how many listen to it. */
function aborter(): { readonly controller: AbortController; listeners(): number } {
  const controller = new AbortController();
  return { controller, listeners: () => getEventListeners(controller.signal, "abort").length };
}

describe("the code of a ReplyError", () => {
  test.for<[message: string, code: string]>([
    // As Redis says it, in a reply of its own.
    ["ERR unknown command 'FOO', with args beginning with: 'SET' 'OOM'", "ERR"],
    ["ERR value is not an integer or out of range", "ERR"],
    ["ERR DB index is out of range", "ERR"],
    ["ERR wrong number of arguments for 'get' command", "ERR"],
    ["WRONGTYPE Operation against a key holding the wrong kind of value", "WRONGTYPE"],
    ["OOM command not allowed when used memory > 'maxmemory'.", "OOM"],
    ["OOM command not allowed when used memory > 'maxmemory'. script: 3f1a, on @user_script:1.", "OOM"],
    ["NOSCRIPT No matching script. Please use EVAL.", "NOSCRIPT"],
    ["READONLY You can't write against a read only replica.", "READONLY"],
    ["LOADING Redis is loading the dataset in memory", "LOADING"],
    ["BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.", "BUSY"],
    ["MISCONF Redis is configured to save RDB snapshots, but it is currently not able to persist on disk.", "MISCONF"],
    ["NOREPLICAS Not enough good replicas to write.", "NOREPLICAS"],
    ["MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.", "MASTERDOWN"],
    ["CLUSTERDOWN Hash slot not served", "CLUSTERDOWN"],
    ["CROSSSLOT Keys in request don't hash to the same slot", "CROSSSLOT"],
    ["MOVED 3999 127.0.0.1:6381", "MOVED"],
    ["ASK 3999 127.0.0.1:6381", "ASK"],
    ["NOAUTH Authentication required.", "NOAUTH"],
    ["WRONGPASS invalid username-password pair or user is disabled.", "WRONGPASS"],
    ["NOPERM this user has no permissions to run the 'eval' command", "NOPERM"],
    ["XYZ9_2 a code with a digit and an underscore", "XYZ9_2"],
    ["OOM", "OOM"],
    // Behind the sign of the protocol, or "ERR".
    ["-OOM command not allowed", "OOM"],
    ["ERR NOSCRIPT No matching script", "NOSCRIPT"],
    ["-ERR NOSCRIPT No matching script", "NOSCRIPT"],
    ["-ERR syntax error", "ERR"],
    // Inside the text of a failed script, as Redis 6 and earlier wrap it, or of a proxy.
    ["ERR Error running script (call to f_b49e): @user_script:10: @user_script: 10: -OOM command not allowed", "OOM"],
    ["ERR Error running script (call to f_b49e): @user_script:3: WRONGTYPE Operation against a key", "WRONGTYPE"],
    ["ERR Error running script -READONLY You can't write against a read only replica.", "READONLY"],
    ["upstream: NOSCRIPT No matching script", "NOSCRIPT"],
    ["Redis error: -LOADING Redis is loading", "LOADING"],
    ["Redis error: ERR syntax error", "ERR"],
    ["Redis error: -ERR syntax error", "ERR"],
    // None: a text of someone else's.
    ["max daily request limit exceeded", "ERR"],
    ["ERR max daily request limit exceeded. Limit: 10000, Usage: 10000.", "ERR"],
    ["Unauthorized", "ERR"],
    ["", "ERR"],
  ])("of %j is %s", ([message, code]) => {
    const error = new ReplyError(message);
    expect(error).toMatchObject({ name: "ReplyError", message, code });
    expect(error).not.toHaveProperty("retryAfterMs");
  });

  test("is the one that is given, where one is", () => {
    const error = new ReplyError("HTTP status 401", { code: "WRONGPASS", retryAfterMs: 7 });
    expect(error).toMatchObject({ code: "WRONGPASS", message: "HTTP status 401", retryAfterMs: 7 });
    expect(new ReplyError("OOM no room", { code: undefined, retryAfterMs: undefined })).toMatchObject({ code: "OOM" });
  });
});

describe("isReplyError()", () => {
  test("holds across two copies of the package, either way", async () => {
    vi.resetModules();
    const other = await import("../src/command.ts");
    expect(other.ReplyError).not.toBe(ReplyError);
    const [ours, theirs] = [new ReplyError("OOM"), new other.ReplyError("OOM")];
    expect(theirs).not.toBeInstanceOf(ReplyError);
    for (const error of [ours, theirs]) {
      expect(isReplyError(error)).toBe(true);
      expect(other.isReplyError(error)).toBe(true);
      expect(isCoded(error, "LockError")).toBe(false);
    }
  });

  test.for<[what: string, error: unknown]>([
    [
      "an error of a foreign client by the same name, which has no code",
      Object.assign(new Error("OOM"), { name: "ReplyError" }),
    ],
    ["an error with a code alone", Object.assign(new Error("connect ECONNREFUSED"), { code: "ECONNREFUSED" })],
    ["a LockError", new LockError("unavailable", "Cannot acquire")],
    ["a text", "OOM command not allowed"],
    ["null", null],
    ["undefined", undefined],
  ])("%s is none", ([, error]) => {
    expect(isReplyError(error)).toBe(false);
  });
});

describe("field()", () => {
  class Client {
    get status() {
      return "ready";
    }
  }

  test.for<[what: string, value: unknown, name: string, found: unknown]>([
    ["a property", { port: 6_379 }, "port", 6_379],
    ["one that holds undefined", { port: undefined }, "port", undefined],
    ["an inherited getter", new Client(), "status", "ready"],
    ["what a Proxy answers", new Proxy({}, { get: () => "traced" }), "status", "traced"],
    ["an element of a list", ["first"], "0", "first"],
    ["none, of an object", {}, "port", undefined],
    ["none, of null", null, "port", undefined],
    ["none, of undefined", undefined, "port", undefined],
    ["none, of a text, which has a length", "text", "length", undefined],
    ["none, of a number", 7, "toFixed", undefined],
  ])("finds %s", ([, value, name, found]) => {
    expect(field(value, name)).toBe(found);
  });
});

describe("isRedisText()", () => {
  test.for([
    "ERR syntax error",
    "OOM command not allowed",
    "NOSCRIPT No matching script",
    "CLUSTERDOWN The cluster is down",
    "ASK 3999 127.0.0.1:6381",
    "XYZ9_2 a code with a digit",
  ])("takes %j for one of Redis'", (text) => {
    expect(isRedisText(text)).toBe(true);
  });

  test.for([
    "",
    "OOM",
    "Connection is closed.",
    "connect ECONNREFUSED 127.0.0.1:6379",
    "read ECONNRESET",
    "Command timed out",
    "A server said no",
    "Err syntax error",
    " ERR syntax error",
    "fetch failed: ERR",
  ])("takes %j for someone else's", (text) => {
    expect(isRedisText(text)).toBe(false);
  });
});
