/**
 * The names of a queue's keys and locks. All have the queue's name as their hash tag, so that they share a slot of a Redis
 * Cluster and a script may touch any of them together.
 *
 * @module
 */

/** How urgent a task is. A list of its own for each: none of a lower one is taken while there is one of a higher. */
export const priorities = ["high", "normal", "low"] as const;
export type Priority = (typeof priorities)[number];

/** The keys of one queue. */
export interface QueueKeys {
  /** Lists of ids that may be taken now, by priority. */
  readonly ready: readonly string[];
  /** Sorted set of `<place of the priority>:<id>`, by the ms at which the task is due. */
  readonly delayed: string;
  /** List of ids that a worker has taken: about to start, or running. */
  readonly claimed: string;
  /** The latest that were done, and those that have failed for good: the last resort. */
  readonly completed: string;
  readonly failed: string;
  /** What the sweeper found, the latest first. */
  readonly incidents: string;
  /** Hash of counters since the queue began, and hash of the latest slot that each schedule fired in. */
  readonly totals: string;
  readonly schedules: string;
  /** Hash of one task. */
  task(id: string): string;
  /** Where the lock of that task holds its token: what `lease.key` says of a lock of this name with the default prefix. */
  taskLock(id: string): string;
}

/** The keys of the queue of this name. */
export function queueKeys(queue: string): QueueKeys {
  const root = `queue:{${queue}}`;
  return {
    ready: priorities.map((priority) => `${root}:ready:${priority}`),
    delayed: `${root}:delayed`,
    claimed: `${root}:claimed`,
    completed: `${root}:completed`,
    failed: `${root}:failed`,
    incidents: `${root}:incidents`,
    totals: `${root}:totals`,
    schedules: `${root}:schedules`,
    task: (id) => `${root}:task:${id}`,
    taskLock: (id) => `lock:${taskLockName(queue, id)}`,
  };
}

/** What the lock of a task is called. */
export function taskLockName(queue: string, id: string): string {
  return `{${queue}}:task:${id}`;
}

/** What the lock of the sweeper is called. No task can have it. */
export function sweeperLockName(queue: string): string {
  return `{${queue}}:sweeper`;
}

/** Of a queue, a task, a schedule or a worker: nothing in it has a meaning to Redis, to a URL, or to the names above. */
export function checkName(what: string, name: string, longest = 128): string {
  if (typeof name === "string" && /^\w[\w.@-]*$/.test(name) && name.length <= longest) return name;
  const rule = `1 to ${longest} letters, digits, "_", and after the first also ".", "@" and "-"`;
  throw new TypeError(`Cannot use ${what} as it must be ${rule}: current value is ${JSON.stringify(name)}`);
}

/** Of a count or a duration. */
export function checkWhole(what: string, value: number, least: number): number {
  if (Number.isSafeInteger(value) && value >= least) return value;
  throw new TypeError(`Cannot use ${what} as it must be a whole number from ${least}: current value is ${value}`);
}
