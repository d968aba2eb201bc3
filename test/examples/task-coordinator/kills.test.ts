/** Processes that are killed with -9 at the worst moments, and a Redis that is, with its data on disk. */
import { type ChildProcess, spawn } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { Redis } from "ioredis";
import { createLock } from "leasehold";
import { ioredisClient } from "leasehold/ioredis";
import { afterAll, expect, test } from "vitest";
import { taskLockName } from "../../../examples/task-coordinator/keys.ts";
import { openQueue, type Queue } from "../../../examples/task-coordinator/queue.ts";
import { startRun } from "../../../examples/task-coordinator/run.ts";
import { runNext } from "../../../examples/task-coordinator/worker.ts";
import { describeRedis, type RunningRedis, startRedis } from "../../support/redis.ts";
import { age, begin, fieldOf, leaseMs, placesOf, totalsOf, useLab } from "./lab.ts";

const root = fileURLToPath(new URL("../../../", import.meta.url));
const example = new URL("../../../examples/task-coordinator/", import.meta.url).href;

describeRedis("a worker that is killed with -9", () => {
  const lab = useLab();
  const children: ChildProcess[] = [];
  afterAll(() => {
    for (const child of children) child.kill("SIGKILL");
  });

  /** Runs a worker up to where it prints a line and hangs, and kills it there. */
  async function killAt(body: string): Promise<void> {
    const source = `
      import { Redis } from "ioredis";
      import { createLock } from "leasehold";
      import { restClient } from "leasehold/rest";
      import { openQueue } from "${example}queue.ts";
      import { taskLockName } from "${example}keys.ts";
      import { startRun } from "${example}run.ts";
      import { runNext } from "${example}worker.ts";

      const client = restClient({ url: "${lab.server.url}", token: "${lab.server.token}" });
      const queue = openQueue(client, "jobs");
      const hang = () => {
        process.stdout.write("here\\n");
        return new Promise(() => setInterval(() => {}, 1_000));
      };
      ${body}
    `;
    const flags = ["--conditions=leasehold-source", "--input-type=module", "--eval", source];
    const child = spawn(process.execPath, flags, { cwd: root, stdio: ["ignore", "pipe", "inherit"] });
    children.push(child);
    const ended = new Promise((resolve) => child.once("exit", (_, signal) => resolve(signal)));
    child.stdout.once("data", () => child.kill("SIGKILL"));
    expect(await ended).toBe("SIGKILL");
  }

  const next = (queue: Queue): Promise<string> => runNext(queue, { worker: "next", handler: () => "done" });

  test("between the claim and the lock: the task is put back, and no attempt is counted", async () => {
    const queue = lab.queue();
    await queue.enqueue(1, { id: "a" });
    await killAt("await queue.claim(); await hang();");
    expect(await placesOf(queue, "a")).toEqual(["claimed"]);
    expect(await next(queue)).toBe("idle");
    await queue.recover("a");
    await age(queue, "a", "seenAt", 10_001);
    expect(await queue.recover("a")).toBe("never-started");
    expect(await next(queue)).toBe("completed");
    expect(await totalsOf(queue)).toMatchObject({ attempts: 1 });
  });

  test("between the lock and the start: the task is put back when the lease has ended", async () => {
    const queue = lab.queue();
    await queue.enqueue(1, { id: "a" });
    await killAt(`
      await createLock(client, { leaseMs: 300 }).acquire(taskLockName("jobs", await queue.claim()));
      await hang();
    `);
    await expect.poll(() => queue.recover("a", { startMs: 0 }), { timeout: 5_000 }).toBe("never-started");
    expect(await next(queue)).toBe("completed");
  });

  test("in mid-task: another has it as soon as the lease has ended", async () => {
    const queue = lab.queue();
    await queue.enqueue(1, { id: "a" });
    await killAt('await runNext(queue, { worker: "dead", leaseMs: 1_000, handler: hang });');
    expect(await fieldOf(queue, "a", "state")).toBe("running");
    await expect.poll(() => queue.recover("a"), { timeout: 5_000 }).toBe("lease-ended");
    expect(await lab.redis.exists(queue.keys.taskLock("a"))).toBe(0);
    expect(await next(queue)).toBe("completed");
    expect(await fieldOf(queue, "a", "attempts")).toBe("2");
  });

  test("after its report and before its release: the task is done, and not begun again", async () => {
    const queue = lab.queue();
    await queue.enqueue(1, { id: "a" });
    await killAt(`
      const id = await queue.claim();
      const lease = await createLock(client, { leaseMs: 60_000 }).acquire(taskLockName("jobs", id));
      const run = await startRun(queue, id, lease, { leaseMs: 60_000, worker: "dead" });
      await run.complete("its result", 60_000);
      await hang();
    `);
    expect(await queue.recover("a", { force: true })).toBe("moved");
    expect(await next(queue)).toBe("idle");
    expect(await fieldOf(queue, "a", "result")).toBe('"its result"');
  });
});

describeRedis("a Redis that is killed with -9 and has its data on disk", () => {
  const directory = mkdtempSync(join(tmpdir(), "leasehold-"));
  const running: { redis?: RunningRedis; connection?: Redis } = {};
  const end = async (): Promise<void> => {
    running.connection?.disconnect();
    await running.redis?.stop();
  };
  afterAll(async () => {
    await end();
    rmSync(directory, { recursive: true, force: true });
  });

  /** Starts it, again, on the same data. */
  async function restart(): Promise<Queue> {
    await end();
    running.redis = await startRedis({ args: ["--dir", directory, "--appendonly", "yes", "--appendfsync", "always"] });
    running.connection = new Redis(running.redis.port, "127.0.0.1");
    return openQueue(ioredisClient(running.connection), "jobs");
  }

  test("knows its tasks, their leases and their fences as before", async () => {
    let queue = await restart();
    await queue.enqueue(1, { id: "claimed" });
    await queue.claim();
    await queue.enqueue(1, { id: "running" });
    await queue.enqueue(1, { id: "waiting", priority: "low" });
    await queue.enqueue(1, { id: "later", delayMs: 60_000 });
    const { lease, run } = await begin(queue);
    await run.progress(50, "half");

    queue = await restart();
    const settings = { leaseMs, worker: "worker" };
    expect(await createLock(queue.client).tryAcquire(taskLockName("jobs", "running"))).toBeNull();
    expect(await queue.recover("running")).toBe("well");
    const again = (await startRun(queue, "running", lease, settings)) ?? expect.fail("it is not known any more");
    expect(again.task.attempt).toBe(1);
    expect(await again.complete("done", leaseMs)).toBe(true);

    queue = await restart();
    expect(await fieldOf(queue, "running", "state")).toBe("completed");
    expect(await totalsOf(queue)).toEqual({ enqueued: 4, attempts: 1, completed: 1 });
    const places = await Promise.all(["claimed", "running", "waiting", "later"].map((id) => placesOf(queue, id)));
    expect(places).toEqual([["claimed"], ["completed"], ["ready"], ["delayed"]]);
    const next = await createLock(queue.client)
      .acquire(taskLockName("jobs", "running"), { waitMs: 0 })
      .catch(() => null);
    expect(next).toBeNull(); // its worker has not let go: the lease outlasts the restart
    await queue.client.execute(["DEL", lease.key]);
    expect((await createLock(queue.client).acquire(taskLockName("jobs", "running"))).fence).toBeGreaterThan(
      lease.fence,
    );
  });
});
