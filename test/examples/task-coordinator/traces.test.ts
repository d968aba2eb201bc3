/** Whatever happens, in whatever order: no task is lost, and none is completed twice. */
import fc from "fast-check";
import { createLock, type Lease } from "leasehold";
import { expect, test } from "vitest";
import { taskLockName } from "../../../examples/task-coordinator/keys.ts";
import { type Run, startRun } from "../../../examples/task-coordinator/run.ts";
import { describeRedis } from "../../support/redis.ts";
import { age, endLease, leaseMs, passDelays, placesOf, totalsOf, useLab } from "./lab.ts";

const ids = ["a", "b", "c"];
const id = fc.constantFrom(...ids);

/** Mostly workers go on with what they do; fate does the rest. */
const step = fc.oneof(
  { weight: 12, arbitrary: fc.record({ go: fc.nat(2), on: fc.constantFrom("complete", "fail", "fail", "progress") }) },
  { weight: 3, arbitrary: fc.record({ late: fc.nat(), report: fc.constantFrom("complete", "fail", "progress") }) },
  { weight: 2, arbitrary: fc.record({ enqueue: id }) },
  { weight: 2, arbitrary: fc.record({ endLease: id }) },
  { weight: 3, arbitrary: fc.record({ sweepAfterMs: fc.constantFrom(0, 20_000) }) },
  { weight: 2, arbitrary: fc.record({ passDelays: fc.constant(true) }) },
  { weight: 1, arbitrary: fc.record({ restart: fc.nat(2) }) },
  { weight: 1, arbitrary: fc.record({ retry: id }) },
  { weight: 1, arbitrary: fc.record({ discard: id }) },
);
type Step = typeof step extends fc.Arbitrary<infer T> ? T : never;
type Report = "complete" | "fail" | "progress";

/** What a worker has in hand. It never learns on its own that it has lost it. */
interface Hand {
  id?: string | null;
  lease?: Lease | null;
  run?: Run | null;
}

describeRedis("any order of steps by three workers on a real Redis", () => {
  const lab = useLab();

  test("leaves each unfinished task in one list, and completes each once, by the holder of its lock", async () => {
    await fc.assert(fc.asyncProperty(fc.array(step, { minLength: 40, maxLength: 120 }), follow), { numRuns: 40 });
  }, 30_000);

  async function follow(steps: readonly Step[]): Promise<void> {
    await lab.redis.flushall();
    const queue = lab.queue();
    const lock = createLock(queue.client, { leaseMs });
    const hands: Hand[] = [{}, {}, {}];
    /** Every attempt that ever was: the network may bring any of its reports again, or late. */
    const attempts: { readonly run: Run; readonly lease: Lease }[] = [];
    const fences = new Map<string, number>();
    const completed = new Map<string, number>();

    async function report({ run, lease }: (typeof attempts)[number], kind: Report): Promise<void> {
      const { id } = run.task;
      const holds = (await lab.redis.get(lease.key)) === lease.token && fences.get(id) === run.fence;
      if (kind === "progress") expect(await run.progress(50)).toBe(holds && (await isRunning(id)));
      else if (kind === "fail") await run.fail("no luck", 1_000);
      else if (await run.complete(null, leaseMs)) {
        if (!completed.has(id)) expect(holds, `${id} was completed by whoever holds its lock`).toBe(true);
        expect(completed.get(id) ?? run.fence).toBe(run.fence);
        completed.set(id, run.fence);
      }
    }

    const isRunning = async (id: string): Promise<boolean> =>
      (await lab.redis.hget(queue.keys.task(id), "state")) === "running";

    /** One step of a worker's life: claim, lock, start, report, release. */
    async function goOn(hand: Hand, on: Report): Promise<Hand> {
      const { id, lease, run } = hand;
      if (!id) return { id: await queue.claim() };
      if (!lease) {
        const granted = await lock.tryAcquire(taskLockName("jobs", id));
        return granted ? { id, lease: granted } : {};
      }
      if (!run) {
        const started = await startRun(queue, id, lease, { leaseMs, worker: "w" });
        if (started) {
          expect(started.fence).toBeGreaterThan(fences.get(id) ?? 0);
          fences.set(id, started.fence);
          attempts.push({ run: started, lease });
          return { id, lease, run: started };
        }
      } else {
        await report({ run, lease }, on);
        if (on === "progress") return hand;
      }
      await lease.release();
      return {};
    }

    async function take(at: Step): Promise<void> {
      if ("go" in at) hands[at.go] = await goOn(hands[at.go] ?? {}, at.on);
      else if ("restart" in at) hands[at.restart] = {};
      else if ("enqueue" in at) await queue.enqueue(1, { id: at.enqueue, maxAttempts: 3 });
      else if ("endLease" in at) await endLease(queue, at.endLease);
      else if ("retry" in at) await queue.retry(at.retry);
      else if ("discard" in at) await queue.discard(at.discard);
      else if ("passDelays" in at) await passDelays(queue);
      else if ("late" in at) {
        const attempt = attempts[at.late % Math.max(1, attempts.length)];
        if (attempt) await report(attempt, at.report);
      } else {
        for (const id of ids) {
          const seen = await lab.redis.hexists(queue.keys.task(id), "seenAt");
          if (seen) await age(queue, id, "seenAt", at.sweepAfterMs);
          await queue.recover(id);
        }
      }
    }

    for (const at of steps) {
      await take(at);
      const look = async (id: string) =>
        [id, (await lab.redis.hget(queue.keys.task(id), "state")) ?? "", await placesOf(queue, id)] as const;
      for (const [id, state, places] of await Promise.all(ids.map(look))) {
        const lists = { "": [], pending: ["ready", "delayed", "claimed"], running: ["claimed"] }[state] ?? [state];
        expect(places, `the lists of ${id}, which is ${state}`).toHaveLength(Math.min(1, lists.length));
        for (const place of places) expect(lists).toContain(place);
      }
      expect((await totalsOf(queue)).completed ?? 0).toBe(completed.size);
    }
  }
});
