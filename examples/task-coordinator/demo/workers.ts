/**
 * Starts the workers of the demonstration, each in a process of its own: half of them over HTTP, half over TCP.
 *
 * @module
 */
import { type ChildProcess, fork } from "node:child_process";
import { once } from "node:events";
import type { Schedule } from "../schedule.ts";
import { endWith } from "./programs.ts";
import type { RunningRedis } from "./redis.ts";

export const queueName = "jobs";

/** What a task of the demonstration asks for. */
export interface Job {
  /** How long it takes. */
  readonly ms: number;
  /** How many attempts fail before one succeeds. */
  readonly failures: number;
}

/** What a worker's process is told. */
export interface WorkerProcess {
  readonly worker: string;
  readonly redis: { readonly url: string; readonly token: string } | { readonly port: number };
  readonly ledgerUrl: string;
  readonly leaseMs: number;
  /** Each worker fires it: at most one of them does so in each slot. */
  readonly schedule?: Schedule;
}

/** The workers, by name. */
export class Workers {
  readonly #children = new Map<string, ChildProcess>();

  constructor(
    parts: AsyncDisposableStack,
    count: number,
    { rest, port }: RunningRedis,
    settings: Omit<WorkerProcess, "worker" | "redis">,
  ) {
    for (let place = 1; place <= count; place++) {
      const overHttp = place % 2 === 1;
      const worker = `worker-${place}-${overHttp ? "http" : "tcp"}`;
      const told: WorkerProcess = { worker, redis: overHttp ? rest : { port }, ...settings };
      const child = fork(new URL("worker-process.ts", import.meta.url), [], {
        execArgv: ["--conditions=leasehold-source"],
        env: { ...process.env, LEASEHOLD_WORKER: JSON.stringify(told) },
      });
      endWith(parts, child);
      this.#children.set(worker, child);
    }
  }

  get names(): string[] {
    return [...this.#children.keys()];
  }

  signal(worker: string, signal: "SIGKILL" | "SIGSTOP" | "SIGCONT"): void {
    this.#children.get(worker)?.kill(signal);
  }

  /** Lets each finish the task that it has. */
  async stop(): Promise<void> {
    const living = [...this.#children.values()].filter((child) => child.exitCode === null && child.signalCode === null);
    await Promise.all(
      living.map((child) => {
        const ended = once(child, "exit");
        child.kill("SIGTERM");
        return ended;
      }),
    );
  }
}
