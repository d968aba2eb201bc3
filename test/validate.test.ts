import { describe, expect, test } from "vitest";
import { isLockError } from "../src/errors.ts";
import {
  checkClient,
  checkDuration,
  checkFunction,
  checkLeaseMs,
  checkName,
  checkPrefix,
  checkSignal,
  invalid,
} from "../src/validate.ts";

const longestMs = 365 * 86_400_000;

/** The message of the "config" error that a check must throw. */
function refusal(check: () => unknown): string {
  try {
    check();
  } catch (error) {
    expect(error).toSatisfy((error) => isLockError(error, "config"));
    return error instanceof Error ? error.message : "";
  }
  return expect.fail("The check let it pass");
}

describe("durations", () => {
  test("whole milliseconds within the bounds pass", () => {
    for (const ms of [0, 1, longestMs]) checkDuration("waitMs", ms);
    for (const ms of [10, 10_000, longestMs]) checkLeaseMs(ms);
    checkDuration("maxHoldMs", 5, 5);
    expect(refusal(() => checkDuration("maxHoldMs", 4, 5))).toContain("maxHoldMs");
  });

  // A01: a lease of these would be an error of Redis, which looked like contention.
  test.for<unknown>([-1, 0.5, Number.NaN, Infinity, -Infinity, longestMs + 1, "1000", null, undefined, {}, 5n])(
    "%o is no duration",
    (value) => {
      expect(refusal(() => Reflect.apply(checkDuration, undefined, ["waitMs", value]))).toMatch(
        /^Cannot use waitMs as it must be an integer of ms from 0 to 31536000000: current value is /,
      );
    },
  );

  test("a lease has 10 ms at least", () => {
    expect(refusal(() => checkLeaseMs(9))).toBe(
      "Cannot use leaseMs as it must be an integer of ms from 10 to 31536000000: current value is 9",
    );
    expect(refusal(() => checkLeaseMs(0))).toContain("current value is 0");
  });
});

describe("names and prefixes", () => {
  test.for(["a", "invoice:42", "{}", "x}y{z", "100%", "日本", "😀", " ", "\0", "a".repeat(10_000)])(
    "%j is a name",
    (name) => {
      expect(checkName("name", name)).toBe(name);
    },
  );

  test.for<unknown>(["", "\uD800", "a\uDC00", "\uDC00\uD800", "😀\uD83D", 42, null, undefined, ["a"]])(
    "%j is no name",
    (value) => {
      expect(refusal(() => Reflect.apply(checkName, undefined, ["name", value]))).toMatch(
        /^Cannot use name as it must be /,
      );
    },
  );

  test("a prefix has no character that would move or hide the hash tag", () => {
    expect(checkPrefix("lock")).toBe("lock");
    expect(checkPrefix("app:lock")).toBe("app:lock");
    for (const prefix of ["", "{", "a}", "%", "{a}", "\uD800"]) {
      expect(refusal(() => checkPrefix(prefix))).toMatch(/^Cannot use prefix as it must be /);
    }
  });
});

describe("functions, signals and clients", () => {
  test("only a function is a task", () => {
    checkFunction("task", () => {});
    expect(refusal(() => checkFunction("task", undefined))).toBe(
      "Cannot use task as it must be a function: current value is undefined",
    );
  });

  test("a signal may be absent, and be of another realm", () => {
    checkSignal(undefined);
    checkSignal(AbortSignal.abort());
    Reflect.apply(checkSignal, undefined, [{ aborted: false, addEventListener() {}, removeEventListener() {} }]);
    for (const value of [new AbortController(), null, 5, {}, { aborted: false, addEventListener() {} }]) {
      expect(refusal(() => Reflect.apply(checkSignal, undefined, [value]))).toMatch(
        /^Cannot use signal as it must be an AbortSignal: current value is /,
      );
    }
  });

  test("a client is whatever can execute", () => {
    const client = { execute: async () => null };
    expect(checkClient(client)).toBe(client);
  });

  // G01: the call shape of a raw client does not fit, which surfaced as "no quorum".
  test.for<[string, unknown]>([
    ["of ioredis", { call() {}, sendCommand() {} }],
    ["of node-redis", { sendCommand() {} }],
    ["of a pool of node-redis, which has an execute of its own", { execute() {}, sendCommand() {} }],
    ["of Upstash", { exec() {} }],
    ["that is options", { url: "https://example.com", token: "secret-token" }],
    ["that is a URL", "https://example.com"],
    ["that is undefined", undefined],
    ["that is null", null],
  ])("a raw client %s is refused, and the missing method and what has it are named", ([, value]) => {
    expect(refusal(() => Reflect.apply(checkClient, undefined, [value]))).toBe(
      `Cannot use the client as it must be one with execute, such as restClient or ioredisClient makes: current value is ${typeof value}`,
    );
  });
});

describe("invalid()", () => {
  test("names the option and its value, and ends without a full stop", () => {
    expect(invalid("leaseMs", 5, "an integer").message).toBe(
      "Cannot use leaseMs as it must be an integer: current value is 5",
    );
    expect(invalid("name", "a\nb", "short").message).toContain('current value is "a\\nb"');
  });

  test.for<[value: unknown, shown: string]>([
    [undefined, "undefined"],
    [null, "null"],
    [Number.NaN, "NaN"],
    [7n, "7"],
    [Symbol("lease"), "Symbol(lease)"],
    [[1, 2], "object"],
    [Object.create(null), "object"],
    [Object.assign(() => "source", { toString: () => expect.fail("called") }), "function"],
  ])("shows a value as it is, and never what an object would say of itself", ([value, shown]) => {
    expect(invalid("leaseMs", value, "an integer").message).toMatch(/: current value is [a-zA-Z0-9()]+$/);
    expect(invalid("leaseMs", value, "an integer").message.endsWith(` ${shown}`)).toBe(true);
  });

  test("shortens a long value", () => {
    expect(invalid("name", "x".repeat(100_000), "short").message.length).toBeLessThan(200);
  });
});
