/** Runs locks in Lambda's own runtime client, in a process that is frozen and thawed as Lambda freezes and thaws. */
import { execFileSync } from "node:child_process";
import { existsSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import ric from "aws-lambda-ric/package.json" with { type: "json" };
import { createLock, fencedSet } from "leasehold";
import { restClient } from "leasehold/rest";
import { afterAll, beforeAll, expect, test } from "vitest";
import { bundle, type Environment, startEnvironment } from "../../../examples/lambda-cache/environment.ts";
import { describeRedis, type RunningRestRedis, startRestRedis } from "../../support/redis.ts";
import { expected, type Stage } from "../scenario.ts";
import type { Event } from "./handler.ts";

console.log(`Runtimes: aws-lambda-ric ${ric.version} on Node ${process.versions.node}`);

describeRedis("inside aws-lambda-ric", () => {
  const parts = new AsyncDisposableStack();
  let servers: RunningRestRedis[];
  let environment: Environment;
  let directory: string;

  beforeAll(async () => {
    directory = mkdtempSync(join(tmpdir(), "leasehold-lambda-"));
    parts.defer(() => rmSync(directory, { recursive: true, force: true }));
    servers = await Promise.all(Array.from({ length: 3 }, () => startRestRedis()));
    for (const server of servers) parts.defer(server.stop);
    await bundle(new URL("handler.ts", import.meta.url), directory);
    environment = await startEnvironment(parts, { taskRoot: directory, variables: {}, timeoutMs: 60_000 });
  }, 60_000);
  afterAll(() => parts.disposeAsync());

  const stageOf = (name: string): Stage => {
    const [a = "", b = "", c = ""] = servers.map(({ url }) => url);
    return { urls: [a, b, c], token: String(servers[0]?.token), name };
  };
  const clientOf = ({ urls: [url], token }: Stage) => restClient({ url, token });
  const invoke = (event: Event): Promise<unknown> => environment.invoke(event);

  test("the scenario of all runtimes comes to what it must, and the next invocation is asked for", async () => {
    expect(await invoke({ task: "scenario", stage: stageOf("scenario") })).toEqual(expected);
    expect(await invoke({ task: "cycle", stage: stageOf("afterwards") })).toBe("released");
  });

  test("I01 after a freeze in which the server closed the connection, the first acquire succeeds", async () => {
    const stage = stageOf("dropped");
    for (let freeze = 0; freeze < 5; freeze++) {
      expect(await invoke({ task: "cycle", stage })).toBe("released");
      servers[0]?.drop();
    }
    expect(environment.isOver()).toBe(false);
  });

  test("I02 frozen while it holds: lost at the first look, before any timer has run, and its writes are refused", async () => {
    const stage = stageOf("held");
    const [holding, pipe] = [join(directory, "holding"), join(directory, "pipe")];
    execFileSync("mkfifo", [pipe]);
    const invoked = invoke({ task: "hold", stage, holding, pipe });
    await expect.poll(() => existsSync(holding), { timeout: 15_000 }).toBe(true);
    process.kill(environment.pid, "SIGSTOP");

    const next = await createLock(clientOf(stage)).acquire(stage.name);
    await fencedSet(clientOf(stage), { key: "{held}:guarded", value: "new", fence: next.fence });
    process.kill(environment.pid, "SIGCONT");
    writeFileSync(pipe, "go on");

    expect(await invoked).toEqual({
      atOnce: { remaining: 0, aborted: true, timers: 0 },
      extended: "lost",
      written: false,
      released: "stolen",
    });
    expect(next.remaining()).toBeGreaterThan(0);
    expect(await next.release()).toBe("released");
  });

  test("I02 work that a handler left behind its answer is over after the thaw, and leaves the next holder alone", async () => {
    const stage = stageOf("left");
    expect(await invoke({ task: "leave", stage })).toEqual({ held: true });
    const next = await createLock(clientOf(stage)).acquire(stage.name);
    const sent = servers[0]?.requests.length ?? 0;
    expect(await invoke({ task: "look", stage })).toEqual({ remaining: 0, aborted: true, outcome: "lost" });
    expect((servers[0]?.requests.length ?? 0) - sent).toBeLessThanOrEqual(1);
    expect(await next.release()).toBe("released");
  });
});
