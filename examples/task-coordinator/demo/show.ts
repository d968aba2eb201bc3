/**
 * The show: a queue of tasks, workers as processes, and what befalls them in mid-task.
 *
 * @module
 */
import { setTimeout as sleep } from "node:timers/promises";
import type { Queue } from "../queue.ts";
import { readState, type State } from "../state.ts";
import type { Account } from "./account.ts";
import { startLedger } from "./ledger.ts";
import type { RunningRedis } from "./redis.ts";
import { type Job, Workers } from "./workers.ts";

/** How large the show is. */
export interface ShowSettings {
  readonly tasks: number;
  readonly workers: number;
  /** How long a worker may be gone before its task is another's. */
  readonly leaseMs: number;
  /** False shows what happens where the resource knows no fences. */
  readonly fenced: boolean;
  readonly say: (line: string) => void;
}

/** Plays it, and counts. */
export async function play(
  parts: AsyncDisposableStack,
  redis: RunningRedis,
  queue: Queue,
  settings: ShowSettings,
): Promise<Account> {
  const { tasks, fenced, leaseMs, say } = settings;
  const began = performance.now();
  const seconds = (): number => (performance.now() - began) / 1_000;
  const happened = (what: string): void => say(`${seconds().toFixed(1).padStart(5)} s  ${what}`);

  let touches = 0;
  let frozen: { readonly task: string; readonly worker: string } | undefined;
  let restarted = Promise.resolve();
  const onTouch = (task: string, worker: string): void => {
    touches++;
    if (touches === Math.round(tasks * 0.15)) {
      workers.signal(worker, "SIGKILL");
      happened(`${worker} was killed with -9 in the midst of ${task}`);
    }
    if (touches === Math.round(tasks * 0.35)) {
      frozen = { task, worker };
      workers.signal(worker, "SIGSTOP");
      happened(`${worker} was frozen in the midst of ${task}`);
    }
    if (touches === Math.round(tasks * 0.6)) {
      happened("Redis was killed with -9, and starts again");
      restarted = redis.restart();
      restarted.catch(() => {}); // it is awaited at the end, unless the show is broken off
    }
  };
  const ledger = await startLedger(parts, { fenced, onTouch });
  const { repeats, repeatsCreated } = await fill(queue, tasks);
  const workers = new Workers(parts, settings.workers, redis, { ledgerUrl: ledger.url, leaseMs });
  say(`${tasks} tasks, ${workers.names.join(", ")}\n`);

  await until(() => frozen !== undefined && ledger.entries.get(frozen.task)?.made === 1);
  if (frozen) {
    happened(`${frozen.task} was done by another, and ${frozen.worker} is thawed`);
    workers.signal(frozen.worker, "SIGCONT");
  }
  const isOver = ({ totals }: State): boolean =>
    (totals.completed ?? 0) + (totals.failed ?? 0) >= tasks && (totals.refused ?? 0) > 0;
  await until(async () => isOver(await readState(queue)));
  await restarted;
  await workers.stop();

  const { totals, counts } = await readState(queue);
  const { completed = 0, attempts = 0, retried = 0, recovered = 0, refused = 0 } = totals;
  return {
    tasks,
    completed,
    entries: ledger.entries,
    attempts,
    retried,
    recovered,
    refusedWrites: ledger.refused(),
    refusedReports: refused,
    failed: counts.failed,
    repeats,
    repeatsCreated,
    seconds: seconds(),
  };
}

/** Puts the tasks in line, every tenth of them twice. Every twentieth fails at first. */
async function fill(queue: Queue, tasks: number): Promise<{ repeats: number; repeatsCreated: number }> {
  const enqueue = (place: number): Promise<{ created: boolean }> => {
    const payload = { ms: 40, failures: place % 20 === 7 ? 1 : 0 } satisfies Job;
    const priority = place % 10 === 0 ? "high" : "normal";
    return queue.enqueue(payload, { id: `task-${String(place).padStart(3, "0")}`, priority, maxAttempts: 10 });
  };
  const places = Array.from({ length: tasks }, (_, index) => index + 1);
  await Promise.all(places.map(enqueue));
  const repeated = await Promise.all(places.filter((place) => place % 10 === 0).map(enqueue));
  return { repeats: repeated.length, repeatsCreated: repeated.filter(({ created }) => created).length };
}

/** Asks again and again. An error is Redis restarting. */
async function until(met: () => boolean | Promise<boolean>): Promise<void> {
  while (!(await Promise.resolve(met()).catch(() => false))) await sleep(50);
}
