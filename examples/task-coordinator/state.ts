/**
 * What is going on in a queue, as the page shows it: two requests, whatever its length.
 *
 * @module
 */
import type { Reply } from "leasehold";
import { type Priority, priorities, sweeperLockName } from "./keys.ts";
import type { Queue } from "./queue.ts";
import { evaluate } from "./scripts/evaluate.ts";
import { detailsScript, overviewScript, taskFields } from "./scripts/read.ts";

/** A lock that is held. */
export interface LockView {
  readonly name: string;
  /** The worker; null for the sweeper, and for a task that is about to start. */
  readonly holder: string | null;
  readonly fence: number;
  /** By the clock of Redis; null where the lock has no end, which is what the sweeper looks for. */
  readonly remainingMs: number | null;
  readonly leaseMs: number | null;
}

/** One task. Texts are cut at 500 bytes. Moments are in ms by the clock of Redis; what does not apply is null. */
export interface TaskView {
  readonly id: string;
  readonly state: "pending" | "running" | "completed" | "failed";
  readonly payload: string;
  readonly priority: Priority;
  readonly attempts: number;
  readonly maxAttempts: number;
  readonly enqueuedAt: number;
  /** When a delayed task comes into line. */
  readonly dueAt: number | null;
  readonly worker: string | null;
  readonly fence: number | null;
  readonly startedAt: number | null;
  readonly endedAt: number | null;
  readonly percent: number;
  readonly note: string;
  readonly result: string | null;
  readonly error: string | null;
}

/** Something that the sweeper set right. */
export interface Incident {
  readonly at: number;
  readonly id: string;
  readonly why: string;
  readonly worker: string;
}

/** Everything. */
export interface State {
  readonly queue: string;
  readonly now: number;
  /** How many there are; the lists below show the first of them. */
  readonly counts: {
    readonly ready: number;
    readonly delayed: number;
    readonly claimed: number;
    readonly failed: number;
  };
  /** Since the queue began: enqueued, attempts, completed, retried, recovered, refused, failed. */
  readonly totals: Readonly<Record<string, number>>;
  readonly locks: readonly LockView[];
  readonly pending: readonly TaskView[];
  readonly running: readonly TaskView[];
  readonly completed: readonly TaskView[];
  readonly failed: readonly TaskView[];
  readonly incidents: readonly Incident[];
}

/** Reads it all. `first` is how many tasks of each list. */
export async function readState(queue: Queue, first = 25): Promise<State> {
  const { client, keys } = queue;
  const sweeper = sweeperLockName(queue.name);
  const { ready, delayed, claimed, failed, completed, incidents, totals } = keys;
  const lists = [...ready, delayed, claimed, failed, completed, incidents, totals];
  const overview = await evaluate(
    client,
    overviewScript,
    [...lists, `lock:${sweeper}`, `lock:${sweeper}:fence`],
    [first],
  );
  const [now, sweeperMs, sweeperFence, lengths, firsts, counters] = listOf(overview);
  const [high = 0, normal = 0, low = 0, later = 0, taken = 0, dead = 0] = listOf(lengths).map(Number);
  const [a, b, c, due, claimedIds, failedIds, completedIds, notes] = listOf(firsts).map((list) =>
    listOf(list).map(textOf),
  );
  const dueAt = new Map(pairsOf(due).map(([member, at]) => [member.slice(2), Number(at)]));
  const waiting = [a, b, c, [...dueAt.keys()]].flatMap((ids) => ids ?? []).slice(0, first);
  const ids = [waiting, claimedIds, failedIds, completedIds].flatMap((list) => list ?? []);
  const found = await detailsOf(queue, ids, dueAt);

  const locks: LockView[] = found.flatMap(({ task, remainingMs, leaseMs }) =>
    remainingMs === undefined
      ? []
      : {
          name: task.id,
          holder: task.state === "pending" ? null : task.worker,
          fence: task.fence ?? 0,
          remainingMs,
          leaseMs,
        },
  );
  if (Number(sweeperMs) !== -2) {
    const fence = Number(textOf(sweeperFence));
    locks.push({ name: "(sweeper)", holder: null, fence, remainingMs: endOf(sweeperMs) ?? null, leaseMs: null });
  }
  const inState = (state: TaskView["state"]): TaskView[] =>
    found.flatMap(({ task }) => (task.state === state ? task : []));
  return {
    queue: queue.name,
    now: Number(now),
    counts: { ready: high + normal + low, delayed: later, claimed: taken, failed: dead },
    totals: Object.fromEntries(pairsOf(listOf(counters).map(textOf)).map(([name, count]) => [name, Number(count)])),
    locks,
    pending: inState("pending"),
    running: inState("running"),
    completed: inState("completed"),
    failed: inState("failed"),
    incidents: (notes ?? []).map(incidentOf),
  };
}

interface Details {
  readonly task: TaskView;
  /** Undefined where its lock is free. */
  readonly remainingMs: number | null | undefined;
  readonly leaseMs: number | null;
}

async function detailsOf(
  { client, keys }: Queue,
  ids: readonly string[],
  dueAt: ReadonlyMap<string, number>,
): Promise<Details[]> {
  if (ids.length === 0) return [];
  const reply = await evaluate(
    client,
    detailsScript,
    ids.flatMap((id) => [keys.task(id), keys.taskLock(id)]),
  );
  return listOf(reply).flatMap((entry, at) => {
    const [left, values] = listOf(entry);
    const texts = listOf(values).map((value) => (value === null ? null : textOf(value)));
    const text = (name: (typeof taskFields)[number]): string | null => texts[taskFields.indexOf(name)] ?? null;
    const number = (name: (typeof taskFields)[number]): number | null => {
      const value = text(name);
      return value === null ? null : Number(value);
    };
    const state = text("state");
    if (state === null) return []; // ended and forgotten since
    const id = ids[at] ?? "";
    const task: TaskView = {
      id,
      state: state as TaskView["state"],
      payload: text("payload") ?? "null",
      priority: priorities[number("priority") ?? 1] ?? "normal",
      attempts: number("attempts") ?? 0,
      maxAttempts: number("maxAttempts") ?? 0,
      enqueuedAt: number("enqueuedAt") ?? 0,
      dueAt: dueAt.get(id) ?? null,
      worker: text("worker"),
      fence: number("fence"),
      startedAt: number("startedAt"),
      endedAt: number("endedAt"),
      percent: number("percent") ?? 0,
      note: text("note") ?? "",
      result: text("result"),
      error: text("error"),
    };
    return { task, remainingMs: endOf(left), leaseMs: number("leaseMs") };
  });
}

function incidentOf(note: string): Incident {
  const [at = "", id = "", why = "", worker = ""] = note.split(" ");
  return { at: Number(at), id, why, worker };
}

/** What PTTL says: undefined where there is no key, null where it has no end. */
function endOf(pttl: Reply | undefined): number | null | undefined {
  const ms = Number(pttl);
  return ms === -2 ? undefined : ms === -1 ? null : ms;
}

/** A flat list of names and values, as Redis gives it. */
function pairsOf(flat: readonly string[] = []): [string, string][] {
  return flat.flatMap((name, at): [string, string][] => (at % 2 ? [] : [[name, flat[at + 1] ?? ""]]));
}

function listOf(reply: Reply | undefined): readonly Reply[] {
  return Array.isArray(reply) ? reply : [];
}

/** Without the letter before it. */
function textOf(reply: Reply | undefined): string {
  return String(reply).slice(1);
}
