/**
 * What the page says of each thing, and what may be done with it.
 *
 * @module
 */
import type { Incident, LockView, TaskView } from "../state.ts";

/** A button of a task. With a consequence it asks first. */
export interface Action {
  readonly label: string;
  readonly path: string;
  readonly done: string;
  readonly consequence?: string;
}

const actionsOf: Readonly<Record<TaskView["state"], readonly Action[]>> = {
  pending: [],
  completed: [],
  running: [
    {
      label: "Take back",
      path: "take-back",
      done: "was taken back",
      consequence:
        "Its worker loses the lock, and its result will be refused. Another attempt is begun, if this was not the last.",
    },
  ],
  failed: [
    { label: "Retry", path: "retry", done: "is back in line" },
    {
      label: "Discard",
      path: "discard",
      done: "was discarded",
      consequence: "The task and its payload are deleted. This cannot be undone.",
    },
  ],
};

/** What one element of a list shows. */
export interface Row {
  readonly key: string;
  readonly id: string;
  readonly facts: string;
  readonly note: string;
  /** Of 1; none where there is nothing to show. */
  readonly bar?: number | undefined;
  readonly actions?: readonly Action[];
}

/** `now` is by the clock of Redis. */
export function taskRow(task: TaskView, now: number): Row {
  const { id, state, attempts, maxAttempts, worker, startedAt, endedAt, dueAt, percent, priority } = task;
  const by = worker === null ? "" : ` by ${worker}`;
  const tried = `${attempts} of ${maxAttempts} attempts`;
  const facts = {
    pending: [priority, attempts > 0 && tried, dueAt !== null && `in ${seconds(dueAt - now)}`]
      .filter(Boolean)
      .join(", "),
    running: `attempt ${attempts} of ${maxAttempts}${by}, ${seconds(now - (startedAt ?? now))}`,
    completed: `${seconds((endedAt ?? 0) - (startedAt ?? 0))}${by}, attempt ${attempts}`,
    failed: `${tried}, ${seconds(now - (endedAt ?? now))} ago`,
  }[state];
  const bar = state === "running" ? percent / 100 : undefined;
  const said = { running: task.note, completed: task.result, pending: task.error ?? task.payload, failed: task.error };
  return { key: id, id, facts, note: said[state] ?? "", bar, actions: actionsOf[state] };
}

/** `elapsedMs` is how old the state is. */
export function lockRow({ name, holder, fence, remainingMs, leaseMs }: LockView, elapsedMs: number): Row {
  const note = holder === null ? `fence ${fence}` : `held by ${holder}, fence ${fence}`;
  if (remainingMs === null) return { key: name, id: name, facts: "no end", note, bar: 1 };
  const left = Math.max(0, remainingMs - elapsedMs);
  const bar = leaseMs === null ? undefined : Math.min(1, left / leaseMs);
  return { key: name, id: name, facts: `${seconds(left)} left`, note, bar };
}

export function incidentRow({ at, id, why, worker }: Incident, now: number): Row {
  const by = worker === "-" ? "" : ` on ${worker}`;
  return { key: `${at} ${id}`, id, facts: `${seconds(now - at)} ago`, note: why.replaceAll("-", " ") + by };
}

function seconds(ms: number): string {
  const whole = Math.max(0, Math.round(ms / 1_000));
  if (whole < 10) return `${(Math.max(0, ms) / 1_000).toFixed(1)} s`;
  if (whole < 120) return `${whole} s`;
  return whole < 7_200 ? `${Math.round(whole / 60)} min` : `${Math.round(whole / 3_600)} h`;
}
