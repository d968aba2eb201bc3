/** One process: its two clocks, its chance, and the times at which it is frozen. */
import { AsyncLocalStorage } from "node:async_hooks";
import type { Clock, Stamp } from "../../src/clock.ts";
import type { Environment } from "../../src/environment.ts";
import type { Fate } from "./fate.ts";
import type { SimNode } from "./node.ts";
import type { Timeline } from "./timeline.ts";

export interface ProcessSettings {
  /** How fast its clocks run: 1 is true. */
  readonly rate: number;
  /** How far its wall clock is off at the start, in ms. */
  readonly skewMs: number;
  /** As on Cloudflare Workers: one clock, which stands still between two events, and no work after the response. */
  readonly isWorker: boolean;
}

/** Which of several things that a process does at a time something is a part of. */
const tasks = new AsyncLocalStorage<string>();

/** When the runs take place, by a true wall clock. */
export const epochMs = 1_800_000_000_000;

export class Process {
  readonly name: string;
  readonly rate: number;
  readonly isWorker: boolean;
  /** Its clients do not heed a signal, as those of a plain socket: they bring the reply whenever it comes. */
  readonly isDeaf: boolean;
  readonly environment: Environment;
  readonly clock: Clock;
  cycle = 0;
  /** Frozen: no timer fires and no reply is read. */
  isFrozen = false;
  /** Nodes that it can neither reach nor hear. */
  readonly cutOff: Set<SimNode> = new Set<SimNode>();
  /** How long it has been frozen in all. */
  frozenMs = 0;
  /** How long its monotonic clock has stood still in all. */
  #stoppedMs = 0;
  #wallOffMs: number;
  #seenAt = 0;
  #waiting: (() => void)[] = [];
  /** Counts a Worker's requests: what was under way when one ended never comes back. */
  request = 0;
  readonly #timeline: Timeline;

  constructor(name: string, timeline: Timeline, fate: Fate, { rate, skewMs, isWorker }: ProcessSettings) {
    this.name = name;
    this.rate = rate;
    this.isWorker = isWorker;
    this.isDeaf = !isWorker && fate.chance(`deaf ${name}`) < 0.3;
    this.#timeline = timeline;
    this.#wallOffMs = epochMs + skewMs;
    this.clock = { now: () => this.#now(), after: (ms, _, callback) => this.#after(ms, callback) };
    this.environment = {
      clock: this.clock,
      random: fate.random(() => `${name} ${this.task}`),
      host: { isolatesRequests: isWorker },
    };
  }

  /** What it is doing, for the names of its messages and its chance: never by what others do at the same time. */
  get task(): string {
    return tasks.getStore() ?? `c${this.cycle}`;
  }

  /** Does one thing beside others. */
  perform<T>(task: string, work: () => Promise<T>): Promise<T> {
    return tasks.run(task, work);
  }

  /** Runs something in this process as soon as it is awake. Returns what cancels it. */
  at(time: number, run: () => void): () => void {
    const request = this.request;
    const task = tasks.getStore();
    let cancelled = false;
    const land = (): void => {
      if (cancelled || request !== this.request) return;
      if (this.isFrozen) {
        this.#waiting.push(land);
        return;
      }
      this.#seenAt = this.#timeline.now;
      if (task === undefined) run();
      else tasks.run(task, run);
    };
    const cancel = this.#timeline.at(time, land);
    return () => {
      cancelled = true;
      cancel();
    };
  }

  /** By its own monotonic clock. */
  sleep(ms: number): Promise<void> {
    return new Promise((resolve) => void this.#after(ms, resolve));
  }

  /** The machine sleeps, or the scheduler has forgotten it. */
  freeze(ms: number, stopsMonotonic: boolean): void {
    if (this.isFrozen) return;
    this.isFrozen = true;
    this.#timeline.after(ms, () => {
      this.isFrozen = false;
      this.frozenMs += ms;
      if (stopsMonotonic) this.#stoppedMs += ms;
      const waiting = this.#waiting;
      this.#waiting = [];
      for (const land of waiting) this.#timeline.after(0, land);
    });
  }

  /** Somebody sets the wall clock. */
  step(ms: number): void {
    this.#wallOffMs += ms;
  }

  /** A Worker's response is out: its timers never fire, and its replies are never read. */
  endRequest(): void {
    this.request += 1;
  }

  #now(): Stamp {
    const at = this.isWorker ? this.#seenAt : this.#timeline.now;
    const wall = Math.floor(this.#wallOffMs + this.rate * at);
    return { monotonic: this.isWorker ? wall : this.rate * (at - this.#stoppedMs), wall };
  }

  #after(ms: number, callback: () => void): () => void {
    const dueAt = this.rate * (this.#timeline.now - this.#stoppedMs) + Math.max(0, ms);
    const leftMs = (): number => dueAt / this.rate + this.#stoppedMs - this.#timeline.now;
    let cancel = (): void => {};
    // A clock that stood still in between is not there yet.
    const fire = (): void => {
      if (leftMs() > 1e-6) cancel = this.at(this.#timeline.now + leftMs(), fire);
      else callback();
    };
    cancel = this.at(this.#timeline.now + leftMs(), fire);
    return () => cancel();
  }
}
