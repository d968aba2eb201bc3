/** `leasehold serve`: a Redis, real or in memory, as Upstash REST, until it is told to end. */
import { createServer } from "node:http";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { restClient } from "../../adapters/rest.ts";
import { createLock } from "../../src/lock.ts";
import { startPlain, until } from "../doctor/five.ts";
import { describeRedis, listen } from "../support/redis.ts";
import { leasehold, type Running, start } from "./run.ts";

let stack: AsyncDisposableStack;
beforeEach(() => {
  stack = new AsyncDisposableStack();
});
afterEach(() => stack.disposeAsync());

/** Starts it on a free port, and gives its URL once it serves. */
async function serve(
  args: readonly string[] = [],
  env: Record<string, string> = {},
): Promise<Running & { url: string }> {
  const running = start(["serve", "--port", "0", ...args], env);
  stack.defer(async () => {
    running.child.kill("SIGKILL");
    await running.ended;
  });
  const [, url = ""] = await running.writes(/^UPSTASH_REDIS_REST_URL=(\S+)\n.*\n/m);
  return { ...running, url };
}

describe("leasehold serve", () => {
  test("serves one in memory, on the loopback, with a token that it tells, until SIGTERM", async () => {
    const { child, ended, url } = await serve();
    expect(url).toMatch(/^http:\/\/127\.0\.0\.1:\d+$/);
    const lease = await createLock(restClient({ url, token: "local" })).acquire("job");
    expect(await lease.release()).toBe("released");
    child.kill("SIGTERM");
    const { code, stdout, stderr } = await ended;
    expect({ code, stderr }).toEqual({ code: 0, stderr: "" });
    expect(stdout.split("\n")).toEqual([
      "Serving a Redis in memory as the Upstash REST protocol. Ctrl-C ends it. For clients:",
      `UPSTASH_REDIS_REST_URL=${url}`,
      "UPSTASH_REDIS_REST_TOKEN=local",
      "",
    ]);
  });

  test("takes a token of one's own, and never shows it", async () => {
    const token = "token-that-must-not-be-shown";
    for (const [args, env] of [
      [["--token", token], {}],
      [["--token-env", "MINE"], { MINE: token }],
      [[], { UPSTASH_REDIS_REST_TOKEN: token }],
    ] as const) {
      const { child, ended, url } = await serve(args, env);
      await expect(restClient({ url, token: "local" }).execute(["PING"])).rejects.toThrow("WRONGPASS");
      expect(await restClient({ url, token }).execute(["PING"])).toBe("PONG");
      child.kill("SIGINT");
      const { code, stdout, stderr } = await ended;
      expect(code).toBe(0);
      expect(stdout + stderr).not.toContain(token);
    }
  });

  test("tells a machine in one line of JSON", async () => {
    const { child, ended, writes } = start(["serve", "--port", "0", "--json"]);
    const [line] = await writes(/^\{.*\}\n/);
    child.kill("SIGTERM");
    expect(JSON.parse(line)).toEqual({ url: expect.stringMatching(/^http:/), engine: "a Redis in memory" });
    expect((await ended).code).toBe(0);
  });

  test("ends with 2 where the port is taken", async () => {
    const server = createServer();
    const port = await listen(server);
    stack.defer(() => void server.close());
    const { code, stderr } = await leasehold(["serve", "--port", `${port}`]);
    expect(code).toBe(2);
    expect(stderr).toBe(`Cannot serve on 127.0.0.1, port ${port}, as EADDRINUSE\n`);
  });

  test("ends with 3 where the Redis cannot be reached", async () => {
    const { code, stderr } = await leasehold(["serve", "--redis", "redis://127.0.0.1:1", "--token", "x"]);
    expect(code).toBe(3);
    expect(stderr).toBe("Cannot reach 127.0.0.1:1: connect ECONNREFUSED 127.0.0.1:1\n");
  });
});

describeRedis("leasehold serve --redis", () => {
  const token = "token-of-a-test";

  test("serves a real Redis, and lets the requests under way end", async () => {
    const redis = await startPlain(stack);
    const { child, ended, url } = await serve(["--redis", redis.url, "--token", token]);
    const client = restClient({ url, token });
    expect(await client.execute(["SET", "a", "b"])).toBe("OK");
    expect(await redis.redis.get("a")).toBe("b");

    // Redis lets it wait, and shows that it has it.
    await redis.redis.client("PAUSE", 10_000, "WRITE");
    const slow = client.execute(["LPUSH", "list", "late"]);
    await until(async () => / cmd=lpush /.test(String(await redis.redis.client("LIST"))));
    child.kill("SIGTERM");
    await redis.redis.client("UNPAUSE");
    expect(await slow).toBe(1);
    expect((await ended).code).toBe(0);
    await expect(client.execute(["PING"])).rejects.toThrow();
  });

  test("goes on when the Redis comes back, and shows no password meanwhile", async () => {
    const password = "password-that-must-not-be-shown";
    const redis = await startPlain(stack, ["--requirepass", password]);
    const withPassword = redis.url.replace("//", `//:${password}@`);
    const { child, ended, url } = await serve(["--redis", withPassword], { UPSTASH_REDIS_REST_TOKEN: token });
    const client = restClient({ url, token });
    expect(await client.execute(["PING"])).toBe("PONG");
    await redis.stop();
    await expect.poll(() => client.execute(["PING"]).catch(String), { timeout: 5_000 }).toContain("unknown");
    await startPlain(stack, ["--port", `${redis.port}`, "--requirepass", password]);
    await expect.poll(() => client.execute(["PING"]).catch(String), { timeout: 10_000 }).toBe("PONG");
    child.kill("SIGTERM");
    const { code, stdout, stderr } = await ended;
    expect(code).toBe(0);
    expect(stdout + stderr).not.toContain(password);
  });
});
