/** What the processes do with a lock. Every choice hangs on the process and on which of its cycles it is. */
import { isLockError } from "../../src/errors.ts";
import type { Lock } from "../../src/lock-methods.ts";
import type { Fate } from "./fate.ts";
import type { FencedResource } from "./fenced-resource.ts";
import type { Held, LockChecker } from "./lock-checker.ts";
import type { Process } from "./process.ts";
import type { Cycle, LockProfile } from "./profiles.ts";
import type { Timeline } from "./timeline.ts";
import type { Report } from "./violation.ts";

export interface Workload {
  readonly profile: LockProfile;
  readonly timeline: Timeline;
  readonly fate: Fate;
  readonly checker: LockChecker;
  readonly resource: FencedResource;
  readonly report: Report;
  /** Requests that this process has sent so far. */
  requests(): number;
}

/** One process at work, until the run's length is over. */
export class Worker {
  readonly #world: Workload;
  readonly #process: Process;
  readonly #lock: Lock;
  isBusy = false;
  #looks = 0;
  readonly #kept: Promise<unknown>[] = [];

  constructor(world: Workload, process: Process, makeLock: (waitUntil: (work: Promise<unknown>) => void) => Lock) {
    this.#world = world;
    this.#process = process;
    this.#lock = makeLock((work) => void this.#kept.push(work));
  }

  async run(): Promise<void> {
    const { profile, timeline, fate } = this.#world;
    for (;;) {
      const [least, most] = profile.thinkMs;
      await this.#process.sleep(fate.uniform(`${this.#name} think`, least, most));
      if (timeline.now >= profile.lengthMs) return;
      this.#process.cycle += 1;
      this.#looks = 0;
      this.isBusy = true;
      try {
        await this.#perform(fate.pick(`${this.#name} cycle`, profile.cycles));
      } catch (error) {
        this.#expect(error);
      }
      this.isBusy = false;
      if (!this.#process.isWorker) continue;
      await Promise.all(this.#kept.splice(0));
      this.#process.endRequest();
    }
  }

  get #name(): string {
    return `${this.#process.name}/c${this.#process.cycle}`;
  }

  async #perform(cycle: Cycle): Promise<void> {
    const { profile } = this.#world;
    switch (cycle) {
      case "poll":
      case "greedy": {
        const before = this.#world.requests();
        const held = await this.#try();
        if (held === undefined)
          return this.#counts("a refused poll of one Redis", before, profile.nodes === 1 ? 1 : undefined);
        if (cycle === "greedy") void this.#keepExtending(held);
        await this.#holdAndRelease(held, cycle === "greedy");
        return this.#counts("a clean cycle", before, 2 * profile.nodes);
      }
      case "task":
        return this.#runTask();
      case "abort": {
        const caller = new AbortController();
        const afterMs = this.#draw("abort", 0, 1.2 * profile.waitMs);
        let goneAt: number | undefined;
        void this.#process.sleep(afterMs).then(() => {
          goneAt = this.#awakeMs();
          caller.abort(new Error("the caller has gone"));
        });
        const acquiring = this.#acquire(caller.signal).finally(() => {
          const ms = this.#awakeMs() - (goneAt ?? Infinity);
          // It waits for its roll-back, and that no longer than for one answer.
          const mostMs = 1.01 * Math.max(250, profile.leaseMs / 4) + 1;
          if (ms > mostMs) this.#world.report("I16", `an aborted acquire took ${ms.toFixed(0)} ms more`);
        });
        return this.#holdAndRelease(await acquiring, false);
      }
      case "abandon": {
        const held = await this.#acquire();
        await this.#act(held, this.#draw("hold", 0, 0.5 * profile.leaseMs));
        held.mayEnd = true;
        return;
      }
      case "sleep":
        return this.#oversleep(await this.#acquire());
      case "doze":
        return this.#doze(await this.#acquire());
      case "extend":
        return this.#extendAndRelease(await this.#acquire());
      case "hold":
        return this.#holdAndRelease(await this.#acquire(), false);
    }
  }

  async #acquire(signal?: AbortSignal): Promise<Held> {
    const { checker, profile, timeline } = this.#world;
    const calledAt = timeline.now;
    const lease = await this.#timely(this.#lock.acquire("job", signal ? { signal } : {})).catch((error: unknown) => {
      if (isLockError(error, "contended") || isLockError(error, "timeout")) checker.refused(this.#process, calledAt);
      throw error;
    });
    return checker.acquired(lease, this.#process, calledAt, profile.leaseMs);
  }

  async #try(): Promise<Held | undefined> {
    const { checker, profile, timeline } = this.#world;
    const calledAt = timeline.now;
    const lease = await this.#lock.tryAcquire("job");
    if (lease !== null) return checker.acquired(lease, this.#process, calledAt, profile.leaseMs);
    checker.refused(this.#process, calledAt);
    return undefined;
  }

  /** Acts for a while, as long as it may. */
  async #act(held: Held, forMs: number): Promise<void> {
    const { profile, timeline } = this.#world;
    const until = timeline.now + forMs;
    while (this.#look(held) && timeline.now < until) await this.#process.sleep(profile.lookMs);
  }

  /** Looks whether it may act, and now and then writes. */
  #look(held: Held): boolean {
    const { checker, resource, fate } = this.#world;
    if (checker.look(held) === 0) return false;
    this.#looks += 1;
    const name = `${this.#name} write ${this.#looks}`;
    if (fate.chance(name) < 0.1) resource.write(held, name);
    return true;
  }

  async #holdAndRelease(held: Held, toTheEnd: boolean): Promise<void> {
    const [least, most] = this.#world.profile.holdMs;
    await this.#act(held, toTheEnd ? most : this.#draw("hold", least, most));
    await this.#release(held);
  }

  /** Lets go, tries again where that failed, and looks in between whether it may still act. */
  async #release(held: Held): Promise<void> {
    const { checker } = this.#world;
    for (let tries = 0; tries < 3; tries += 1) {
      const check = checker.releasing(held);
      const releasing = held.lease.release();
      checker.released(held);
      try {
        check(await releasing);
        return;
      } catch (error) {
        this.#expect(error, "unavailable", "config");
        checker.released(held);
        await this.#process.sleep(this.#draw(`again ${tries}`, 0, 400));
      }
    }
  }

  /** Extends with several leases, longer and shorter, now and then two at once, so that they overtake each other. */
  async #extendAndRelease(held: Held): Promise<void> {
    const { profile } = this.#world;
    const times = Math.floor(this.#draw("extends", 1, 5));
    const longestMs = profile.quarantineMs ?? 1.5 * profile.leaseMs;
    for (let time = 0; time < times; time += 1) {
      await this.#act(held, this.#draw(`hold ${time}`, 0, 0.6 * profile.leaseMs));
      const leaseMs = Math.round(this.#draw(`lease ${time}`, 0.3 * profile.leaseMs, longestMs));
      const extending = this.#extend(held, leaseMs);
      if (this.#draw(`wait ${time}`, 0, 1) < 0.5) await extending;
    }
    await this.#holdAndRelease(held, false);
  }

  /** A few extends while the holder goes on acting. */
  async #keepExtending(held: Held): Promise<void> {
    const { leaseMs } = this.#world.profile;
    const times = Math.floor(this.#draw("extends", 0, 4));
    const pauses = Array.from({ length: times }, (_, time) =>
      this.#draw(`pause ${time}`, 0.1 * leaseMs, 0.6 * leaseMs),
    );
    for (const ms of pauses) {
      await this.#process.sleep(ms);
      await this.#extend(held, leaseMs);
    }
  }

  /** Its machine sleeps while an extend is under way, as a rule for longer than the lease lasts. */
  async #doze(held: Held): Promise<void> {
    const { leaseMs } = this.#world.profile;
    await this.#act(held, this.#draw("awake", 0.5, 0.9) * leaseMs);
    const extending = this.#extend(held, 6 * leaseMs);
    this.#process.freeze(this.#draw("doze", 0.5, 3) * leaseMs, true);
    await extending;
    await this.#holdAndRelease(held, false);
  }

  async #extend(held: Held, leaseMs: number): Promise<void> {
    const check = this.#world.checker.extending(held, leaseMs);
    try {
      await held.lease.extend(leaseMs);
      check();
    } catch (error) {
      this.#expect(error, "lost", "unavailable", "config");
    }
  }

  /** A task that often outlives its lease, and so is renewed; now and then one that is told to end. */
  async #runTask(): Promise<void> {
    const { checker, profile, timeline } = this.#world;
    const calledAt = timeline.now;
    const forMs = this.#draw("task", 0, 3 * profile.leaseMs);
    const maxHoldMs = this.#draw("max", 0, 1) < 0.2 ? Math.round(this.#draw("maxHold", 1, forMs + 1)) : undefined;
    let held: Held | undefined;
    let over = false;
    const running = this.#lock.withLock("job", maxHoldMs === undefined ? {} : { maxHoldMs }, async (lease) => {
      held = checker.acquired(lease, this.#process, calledAt, profile.leaseMs);
      held.mayEnd = maxHoldMs !== undefined;
      const until = timeline.now + forMs;
      while (!over && this.#look(held) && timeline.now < until) await this.#process.sleep(profile.lookMs);
      // Whoever runs the task lets go as soon as it ends.
      held.mayEnd = true;
      held.isReleased = true;
      held.trustedUntil = timeline.now;
    });
    try {
      await running;
    } catch (error) {
      if (maxHoldMs === undefined || !isLockError(error, "lost")) this.#expect(error);
    }
    over = true;
    if (held !== undefined) checker.released(held);
  }

  /** Never looks: its signal alone must tell it that its time is up, though no reply comes. */
  async #oversleep(held: Held): Promise<void> {
    const { checker, report } = this.#world;
    const remainingMs = checker.look(held);
    await this.#process.sleep(remainingMs + 20);
    const isTold = (held.signal ?? held.lease.signal).aborted;
    // A grant that came late may have moved the deadline on.
    if (!isTold && held.lease.remaining() === 0)
      report("I13", `${this.#process.name} slept past its deadline and was not told`);
    held.mayEnd = true;
  }

  /** I16: a call to acquire ends soon after its time is up, whatever the network does. */
  async #timely<T>(call: Promise<T>): Promise<T> {
    const { profile, report } = this.#world;
    const startedAt = this.#awakeMs();
    try {
      return await call;
    } finally {
      const ms = this.#awakeMs() - startedAt;
      const mostMs = profile.waitMs + 3 * Math.max(250, profile.leaseMs);
      if (ms > mostMs) report("I16", `an acquire of ${this.#process.name} took ${ms.toFixed(0)} ms`);
    }
  }

  #awakeMs(): number {
    return this.#world.timeline.now - this.#process.frozenMs;
  }

  #counts(what: string, before: number, wanted: number | undefined): void {
    const count = this.#world.requests() - before;
    if (this.#world.profile.countsRequests && wanted !== undefined && count !== wanted)
      this.#world.report("I11", `${what} took ${count} requests`);
  }

  /** What a lock may say when things go wrong; anything else is a fault of its own. */
  #expect(error: unknown, ...codes: readonly string[]): void {
    const { profile, report } = this.#world;
    const inTrouble = ["unavailable", "aborted", "lost", "config"];
    const allowed = codes.length ? codes : ["contended", "timeout", ...(profile.countsRequests ? [] : inTrouble)];
    if (isLockError(error) && allowed.includes(error.code)) return;
    report("I0", error instanceof Error ? (error.stack ?? error.message) : String(error));
  }

  #draw(what: string, low: number, high: number): number {
    return this.#world.fate.uniform(`${this.#name} ${what}`, low, high);
  }
}
