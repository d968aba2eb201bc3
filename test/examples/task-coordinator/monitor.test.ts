import { afterEach, describe, expect, test, vi } from "vitest";
import { memoryClient } from "../../../adapters/memory/index.ts";
import { isLoopback, monitor } from "../../../examples/task-coordinator/monitor.ts";
import { eventsIn } from "../../../examples/task-coordinator/page/events.ts";
import { openQueue } from "../../../examples/task-coordinator/queue.ts";
import { serveMonitor } from "../../../examples/task-coordinator/serve.ts";
import type { State } from "../../../examples/task-coordinator/state.ts";
import { describeRedis } from "../../support/redis.ts";
import { begin, fieldOf, useLab } from "./lab.ts";

afterEach(() => {
  vi.restoreAllMocks();
});

describeRedis("the monitor, on a real Redis", () => {
  const lab = useLab();
  const token = "a-long-random-text";
  const authorization = `Bearer ${token}`;

  test.each(["TCP", "HTTP"] as const)("over %s says what is going on, in two requests", async (transport) => {
    const queue = lab.queue(transport);
    for (const id of ["run", "wait"]) await queue.enqueue({ of: id }, { id });
    await queue.enqueue(1, { id: "later", delayMs: 60_000, priority: "high" });
    const { run, lease } = await begin(queue, "w-1");
    await run.progress(40, "two of five");
    const before = lab.server.requests.length;
    const response = await monitor(queue, { token }).request("/api/state", { headers: { authorization } });
    if (transport === "HTTP") expect(lab.server.requests.length - before).toBe(2);
    expect(response.headers.get("cache-control")).toBe("no-store");
    const state: State = await response.json();
    expect(state).toMatchObject({
      queue: "jobs",
      counts: { ready: 1, delayed: 1, claimed: 1, failed: 0 },
      totals: { enqueued: 3, attempts: 1 },
      running: [{ id: "run", worker: "w-1", fence: lease.fence, percent: 40, note: "two of five", attempts: 1 }],
      pending: [
        { id: "wait", payload: '{"of":"wait"}', priority: "normal" },
        { id: "later", priority: "high" },
      ],
      locks: [{ name: "run", holder: "w-1", fence: lease.fence, leaseMs: 60_000 }],
    });
    expect(state.locks[0]?.remainingMs).toBeGreaterThan(50_000);
    expect(JSON.stringify(state)).not.toContain(lease.token);
  });

  test("sends what has changed, and nothing while nothing does", async () => {
    const queue = lab.queue();
    const { body } = await monitor(queue, { token, everyMs: 10 }).request("/api/events", {
      headers: { authorization },
    });
    const events = eventsIn(body ?? expect.fail("no body"));
    const next = async (): Promise<State> => {
      const { value } = await events.next();
      expect(value?.event).toBe("state");
      return JSON.parse(value?.data ?? "");
    };
    expect((await next()).counts.ready).toBe(0);
    await queue.enqueue(1, { id: "a" });
    expect((await next()).pending).toMatchObject([{ id: "a" }]);
    await begin(queue);
    // The claim, the lock and the start may each be seen.
    let state = await next();
    while (state.running.length === 0) state = await next();
    expect(state.locks).toHaveLength(1);
    await events.return(undefined);
  });

  test("retries, discards and takes back, and says where the task has moved on", async () => {
    const queue = lab.queue();
    const app = monitor(queue, { token });
    const act = async (path: string): Promise<number> =>
      (await app.request(`/api/tasks/${path}`, { method: "POST", headers: { authorization } })).status;
    await queue.enqueue(1, { id: "a", maxAttempts: 1 });
    expect(await act("a/retry")).toBe(409);
    const { run, lease } = await begin(queue);
    await run.fail("no luck", 0);
    await lease.release();
    expect([await act("a/retry"), await act("a/retry")]).toEqual([204, 409]);
    await begin(queue);
    expect([await act("a/take-back"), await act("a/take-back")]).toEqual([204, 409]);
    expect(await fieldOf(queue, "a", "state")).toBe("failed"); // that was its only attempt
    expect([await act("a/discard"), await act("a/discard")]).toEqual([204, 409]);
    expect(await act("a%20b/retry")).toBe(404);
  });

  test("asks for its token, and acts for nobody who has none", async () => {
    const queue = lab.queue();
    await queue.enqueue(1, { id: "a" });
    await begin(queue);
    const app = monitor(queue, { token });
    for (const headers of [{}, { authorization: "Bearer wrong" }, { authorization: `Basic ${token}` }]) {
      expect((await app.request("/api/state", { headers })).ok).toBe(false);
      expect((await app.request("/api/events", { headers })).ok).toBe(false);
      expect((await app.request("/api/tasks/a/take-back", { method: "POST", headers })).ok).toBe(false);
    }
    expect((await app.request("/api/state")).status).toBe(401);
    expect(await fieldOf(queue, "a", "state")).toBe("running");
  });

  test("without a token acts for no page of another site", async () => {
    const queue = lab.queue();
    await queue.enqueue(1, { id: "a" });
    await begin(queue);
    const app = monitor(queue, { token: undefined });
    const act = async (origin: string | undefined, url = "http://127.0.0.1:8080"): Promise<number> => {
      const headers = origin === undefined ? {} : { origin };
      return (await app.request(`${url}/api/tasks/none/retry`, { method: "POST", headers })).status;
    };
    expect(await act(undefined)).toBe(409);
    expect(await act("http://127.0.0.1:8080")).toBe(409);
    expect(await act("http://127.0.0.1:9090")).toBe(403);
    expect(await act("https://evil.example")).toBe(403);
    expect(await act("null")).toBe(403);
    // A name of theirs that leads to this machine.
    expect(await act("http://evil.example:8080", "http://evil.example:8080")).toBe(403);
    expect((await app.request("http://evil.example:8080/api/state")).status).toBe(403);
    expect((await app.request("http://localhost:8080/api/state")).status).toBe(200);
  });
});

describe("the monitor", () => {
  test("says that Redis cannot be had, and not why", async () => {
    const log = vi.spyOn(console, "error").mockImplementation(() => {});
    const client = { execute: () => Promise.reject(new Error("connect ECONNREFUSED 10.0.0.7:6379")) };
    const app = monitor(openQueue(client, "jobs"), { token: "t" });
    const init = { headers: { authorization: "Bearer t" } };
    const { body } = await app.request("/api/events", init);
    const events = eventsIn(body ?? expect.fail("no body"));
    expect((await events.next()).value).toEqual({ event: "unavailable", data: "" });
    await events.return(undefined);
    const response = await app.request("/api/state", init);
    expect([response.status, await response.text()]).toEqual([503, '{"error":"Redis cannot be had"}']);
    expect(log).toHaveBeenCalledOnce();
  });

  test.each(["", "two words", "ü"])("refuses the token %j, which nobody could send", (token) => {
    expect(() => monitor(openQueue(memoryClient(), "jobs"), { token })).toThrow("Cannot use the token as it must be");
  });

  test.each(["0.0.0.0", "::", "192.168.1.7", "example.com"])("does not listen on %s without a token", async (host) => {
    await expect(serveMonitor(openQueue(memoryClient(), "jobs"), { host })).rejects.toThrow(
      `Cannot listen on ${host} without a token`,
    );
  });

  test.each(["127.0.0.1", "127.8.8.8", "localhost", "::1", "[::1]"])("%s is this machine alone", (host) => {
    expect(isLoopback(host)).toBe(true);
  });

  test.each(["", "localhost.evil.example", "127.0.0.1.evil.example", "0.0.0.0", "10.0.0.1"])(
    "%j may be others",
    (host) => {
      expect(isLoopback(host)).toBe(false);
    },
  );

  test("serves the page with what keeps others from framing it, and no data in it", async () => {
    const served = await serveMonitor(openQueue(memoryClient(), "jobs"), { token: "t" });
    const page = await fetch(served.url);
    expect(page.headers.get("x-frame-options")).toBe("DENY");
    expect(await page.text()).toContain("script-src 'self'");
    expect((await fetch(`${served.url}/page.js`)).headers.get("content-type")).toContain("text/javascript");
    expect((await fetch(`${served.url}/api/state`)).status).toBe(401);
    await served.close();
  });
});

describe("eventsIn()", () => {
  test("puts events together however the network cuts them, and leaves comments out", async () => {
    const bytes = new TextEncoder().encode(": hello\n\nevent: state\ndata: {\ndata: }ü\n\ndata:plain\n\nevent: cut");
    const body = new ReadableStream<Uint8Array>({
      start(controller) {
        for (const byte of bytes) controller.enqueue(Uint8Array.of(byte));
        controller.close();
      },
    });
    const found: unknown[] = [];
    for await (const event of eventsIn(body)) found.push(event);
    expect(found).toEqual([
      { event: "state", data: "{\n}ü" },
      { event: "message", data: "plain" },
    ]);
  });
});
