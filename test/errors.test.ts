import { inspect } from "node:util";
import { runInNewContext } from "node:vm";
import { describe, expect, test } from "vitest";
import { ReplyError } from "../src/command.ts";
import { failure, isLockError, LockError, type LockErrorCode, scrub } from "../src/errors.ts";

const codes: LockErrorCode[] = ["contended", "timeout", "unavailable", "aborted", "lost", "build-failed", "config"];

describe("LockError", () => {
  test("is an Error with a name, a code and what it was given, and nothing else", () => {
    const nodes = [{ label: "eu", outcome: "held", ms: 3 }];
    const error = new LockError("contended", "Cannot acquire", { lockName: "job", nodes, retryAfterMs: 7 });
    expect(error).toBeInstanceOf(Error);
    expect({ ...error }).toEqual({ name: "LockError", code: "contended", lockName: "job", nodes, retryAfterMs: 7 });
    expect(String(error)).toBe("LockError: Cannot acquire");
    expect(error.stack).toContain("errors.test.ts");
    const bare = new LockError("lost", "Cannot use", { lockName: undefined, cause: undefined, result: undefined });
    expect(Object.keys(bare).sort()).toEqual(["code", "name"]);
    expect(bare).not.toHaveProperty("cause");
  });

  test("keeps its cause where an Error has it", () => {
    const cause = new Error("inner");
    expect(new LockError("timeout", "Cannot acquire", { cause }).cause).toBe(cause);
    expect(new LockError("aborted", "Cannot acquire", { cause: null }).cause).toBeNull();
  });

  test("gives a task's value to its caller, and prints it nowhere", () => {
    const error = new LockError("lost", "Cannot use", { result: { password: "hunter2" } });
    expect(error.result).toEqual({ password: "hunter2" });
    expect(JSON.stringify(error)).not.toContain("hunter2");
    expect(inspect(error, { depth: 10 })).not.toContain("hunter2");
  });

  test("is printed as JSON with its code, message and nodes, and the text of its cause", () => {
    const contended = new LockError("contended", "Cannot acquire", { retryAfterMs: 7 });
    const error = new LockError("timeout", "Cannot acquire in time", { lockName: "job", cause: contended });
    expect(JSON.parse(JSON.stringify({ error }))).toEqual({
      error: {
        name: "LockError",
        code: "timeout",
        lockName: "job",
        message: "Cannot acquire in time",
        cause: "Cannot acquire",
      },
    });
    const left = new LockError("aborted", "Cannot acquire", { cause: "the user left" });
    expect(JSON.parse(JSON.stringify(left)).cause).toBe("the user left");
    const byRedis = new LockError("unavailable", "Cannot", { cause: new ReplyError("OOM command not allowed") });
    expect(JSON.parse(JSON.stringify(byRedis)).cause).toBe("OOM command not allowed");
    expect(JSON.parse(JSON.stringify(contended))).not.toHaveProperty("cause");
  });

  test.for<[what: string, cause: unknown]>([
    ["undefined", undefined],
    ["null", null],
    ["a string", "enough"],
    ["a number", 0],
    ["a symbol", Symbol("enough")],
    ["an object without a text form", Object.create(null)],
    ["a DOMException", new DOMException("enough", "TimeoutError")],
    ["a function", () => {}],
    ["a big integer", 1n],
  ])("can be printed whatever its cause is: %s", ([, cause]) => {
    const error = new LockError("aborted", "Cannot acquire", { cause });
    expect(JSON.parse(JSON.stringify(error))).toMatchObject({ code: "aborted", message: "Cannot acquire" });
    expect(inspect(error)).toContain("Cannot acquire");
  });

  test("can be printed although its cause leads back to itself", () => {
    const cause: { self?: unknown } = {};
    cause.self = cause;
    expect(() => JSON.stringify(new LockError("aborted", "Cannot acquire", { cause }))).not.toThrow();
  });
});

test("a name stands in a message as JSON, so that it cannot look like another line of a log", () => {
  const error = failure("contended", "acquire", 'a"\n\u001b[31mfake', "another holds it");
  expect(error.message).toBe('Cannot acquire "a\\"\\n\\u001b[31mfake" as another holds it');
  expect(error.lockName).toBe('a"\n\u001b[31mfake');
});

test("a secret with backslashes is found as well, in a text that escapes them or not", () => {
  const secret = "C:\\path\\of the secret";
  for (const text of [`at ${secret}`, `at ${JSON.stringify(secret).slice(1, -1)}`]) {
    expect(scrub(text, [secret])).toBe("at ");
  }
});

describe("isLockError()", () => {
  test.for(codes)("tells the code %s from all others", (code) => {
    const error = new LockError(code, "Cannot");
    expect(isLockError(error)).toBe(true);
    for (const other of codes) expect(isLockError(error, other)).toBe(other === code);
  });

  test("goes by name and code, so that an error of a second copy of the package counts", () => {
    expect(isLockError(Object.assign(new Error("Cannot"), { name: "LockError", code: "lost" }), "lost")).toBe(true);
  });

  test("goes by no class, so that an error of another realm counts, as in test runners and plug-ins", () => {
    const foreign = runInNewContext("Object.assign(new Error('Cannot'), { name: 'LockError', code: 'lost' })");
    expect(foreign).not.toBeInstanceOf(Error);
    expect(isLockError(foreign, "lost")).toBe(true);
  });

  test.for<[what: string, value: unknown]>([
    ["undefined", undefined],
    ["null", null],
    ["a string", "LockError"],
    ["an object with a code", { code: "lost" }],
    ["another error", new Error("lost")],
    ["an error with a code", Object.assign(new Error("reset"), { code: "lost" })],
    ["a ReplyError", new ReplyError("OOM")],
    ["a LockError without a code", Object.assign(new Error("Cannot"), { name: "LockError" })],
  ])("is false for %s", ([, value]) => {
    expect(isLockError(value)).toBe(false);
    expect(isLockError(value, "lost")).toBe(false);
  });
});

test("scrub() ends a text where a secret begins, also where that is escaped", () => {
  const secret = 'c["json",null]{"name":"Ada"}';
  for (const quoted of [secret, JSON.stringify(secret), JSON.stringify(JSON.stringify(secret))]) {
    expect(scrub(`ERR unknown command ${quoted}`, [secret])).toMatch(/^ERR unknown command "*$/);
  }
});
