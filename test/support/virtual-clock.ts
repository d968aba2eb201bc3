/** Time that moves only when a test says so, and chance that a seed decides. */
import type { Clock } from "../../src/clock.ts";
import type { Environment } from "../../src/environment.ts";
import type { Random } from "../../src/random.ts";

interface Timer {
  readonly at: number;
  readonly keepsAlive: boolean;
  readonly callback: () => void;
}

export class VirtualClock implements Clock {
  /** What the two clocks read; a test may set either, to step the wall clock or stop the monotonic one. */
  monotonic = 1_000;
  wall = 1_700_000_000_000;
  readonly #timers = new Map<number, Timer>();
  #lastId = 0;

  now(): { monotonic: number; wall: number } {
    return { monotonic: this.monotonic, wall: this.wall };
  }

  after(ms: number, keepsAlive: boolean, callback: () => void): () => void {
    this.#lastId += 1;
    const id = this.#lastId;
    this.#timers.set(id, { at: this.monotonic + Math.max(0, ms), keepsAlive, callback });
    return () => this.#timers.delete(id);
  }

  /** Timers that have neither fired nor been cancelled. */
  get pending(): readonly { readonly inMs: number; readonly keepsAlive: boolean }[] {
    return [...this.#timers.values()].map(({ at, keepsAlive }) => ({ inMs: at - this.monotonic, keepsAlive }));
  }

  /** Lets `ms` pass, running each timer at its instant and all that follows from it before the next. */
  async advance(ms: number): Promise<void> {
    const end = this.monotonic + ms;
    await settle();
    for (let next = this.#due(end); next !== undefined; next = this.#due(end)) {
      const [id, timer] = next;
      this.#timers.delete(id);
      this.#moveTo(Math.max(this.monotonic, timer.at));
      timer.callback();
      await settle();
    }
    this.#moveTo(end);
  }

  /** Both clocks jump, and no timer has run yet: a frozen process that has just been thawed. */
  freeze(ms: number): void {
    this.#moveTo(this.monotonic + ms);
  }

  /** Lets time pass, a timer at a time, until the promise settles. */
  async until<T>(promise: Promise<T>, limitMs = 3_600_000): Promise<T> {
    let done = false;
    const mark = (): void => {
      done = true;
    };
    promise.then(mark, mark);
    const end = this.monotonic + limitMs;
    for (await settle(); !done; await settle()) {
      const next = this.#due(end);
      if (next === undefined)
        throw new Error(`Nothing is pending, and the promise has not settled within ${limitMs} ms`);
      await this.advance(Math.max(0, next[1].at - this.monotonic));
    }
    return promise;
  }

  #moveTo(monotonic: number): void {
    this.wall += monotonic - this.monotonic;
    this.monotonic = monotonic;
  }

  #due(end: number): [number, Timer] | undefined {
    let first: [number, Timer] | undefined;
    for (const entry of this.#timers) {
      if (entry[1].at <= end && (first === undefined || entry[1].at < first[1].at)) first = entry;
    }
    return first;
  }
}

/** A repeatable source; not for tokens outside tests. */
export function seededRandom(seed: number): Random {
  let state = seed >>> 0 || 1;
  return {
    fill(bytes) {
      for (let i = 0; i < bytes.length; i += 1) {
        state ^= state << 13;
        state ^= state >>> 17;
        state ^= state << 5;
        bytes[i] = state & 0xff;
      }
      return bytes;
    },
  };
}

/** An environment under a test's control. */
export function virtualEnvironment(
  seed = 1,
  host = { isolatesRequests: false },
): Environment & { readonly clock: VirtualClock } {
  return { clock: new VirtualClock(), random: seededRandom(seed), host };
}

/** Runs every promise reaction that is due. One turn of the event loop, no time. */
export function settle(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}

/** The same time on a machine of its own, whose wall clock is off, and may be stepped. */
export function offClock(clock: VirtualClock, offMs = 0): Clock & { step(ms: number): void } {
  let off = offMs;
  return {
    now: () => ({ ...clock.now(), wall: clock.now().wall + off }),
    after: (ms, keepsAlive, callback) => clock.after(ms, keepsAlive, callback),
    step(ms) {
      off += ms;
    },
  };
}

/** Work that takes so long. */
export function lasting(clock: VirtualClock, ms: number): Promise<void> {
  return new Promise((resolve) => void clock.after(ms, true, resolve));
}

/** Work that never ends. */
export function forever(): Promise<never> {
  return new Promise(() => {});
}
