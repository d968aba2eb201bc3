/** What the processes do with a cache: read and build, and change what stands behind it. */
import type { Cache } from "../../src/cache.ts";
import { isLockError } from "../../src/errors.ts";
import type { CacheChecker, Value } from "./cache-checker.ts";
import type { Fate } from "./fate.ts";
import type { Process } from "./process.ts";
import type { CacheProfile } from "./profiles.ts";
import type { Timeline } from "./timeline.ts";
import type { Report } from "./violation.ts";

export interface CacheWorkload {
  readonly profile: CacheProfile;
  readonly timeline: Timeline;
  readonly fate: Fate;
  readonly checker: CacheChecker;
  readonly report: Report;
  readonly process: Process;
  readonly cache: Cache;
  /** What the cache asked to be kept alive for. */
  readonly kept: Promise<unknown>[];
  requests(): number;
}

/** One after the other, until the run's length is over. */
abstract class Actor {
  protected readonly world: CacheWorkload;
  readonly #name: string;
  #step = 0;
  isBusy = false;

  constructor(world: CacheWorkload, name: string) {
    this.world = world;
    this.#name = name;
  }

  async run(): Promise<void> {
    const { profile, timeline, process, kept } = this.world;
    for (;;) {
      await process.sleep(this.pauseMs());
      if (timeline.now >= profile.lengthMs) return;
      this.#step += 1;
      this.isBusy = true;
      try {
        await process.perform(`${this.#name}/${this.#step}`, () => this.act());
      } catch (error) {
        this.#expect(error);
      }
      this.isBusy = false;
      if (!process.isWorker) continue;
      await Promise.all(kept.splice(0));
      process.endRequest();
    }
  }

  protected abstract act(): Promise<void>;

  protected abstract pauseMs(): number;

  protected draw(what: string, low: number, high: number): number {
    return this.world.fate.uniform(this.named(what), low, high);
  }

  protected named(what: string): string {
    return `${this.world.process.name}/${this.#name}/${this.#step} ${what}`;
  }

  #expect(error: unknown): void {
    const codes = ["build-failed", "timeout", "contended", "unavailable", "aborted"];
    if (isLockError(error) && codes.includes(error.code)) return;
    this.world.report("I0", error instanceof Error ? (error.stack ?? error.message) : String(error));
  }
}

/** Reads a key; now and then only looks at it, gives up, or lets nothing but Redis serve it. */
export class Reader extends Actor {
  constructor(world: CacheWorkload, place: number) {
    super(world, `r${place}`);
  }

  protected pauseMs(): number {
    const [least, most] = this.world.profile.thinkMs;
    return this.draw("think", least, most);
  }

  protected async act(): Promise<void> {
    const { profile, process, checker, cache } = this.world;
    const key = `k${Math.floor(this.draw("key", 0, profile.keys))}`;
    const { floor, freshFloor, version } = checker.of(key);
    const floors = { floor, freshFloor };
    const kind = this.draw("kind", 0, 1);
    if (kind < 0.05) {
      const found = await cache.peek<Value>(key);
      if (found !== undefined) checker.read(key, floors, found.value, found.fence, found.freshMs === 0);
      return;
    }
    const caller = new AbortController();
    if (kind < 0.1 && !profile.countsRequests)
      void process.sleep(this.draw("abort", 0, 300)).then(() => caller.abort(new Error("gone")));
    const onRedisDown = kind > 0.9 ? "throw" : "build";
    const { freshMs, errorMs, leaseMs, waitMs } = profile;
    // How old a value may be, and how long one waits for a new one, is each reader's own choice.
    const isPatient = this.draw("patience", 0, 1) < 0.3;
    const staleMs = isPatient ? 0 : profile.staleMs;
    const softTimeoutMs = isPatient && !profile.countsRequests ? this.draw("soft time-out", 0, 300) : undefined;
    const before = this.world.requests();
    const own = { staleMs, softTimeoutMs: softTimeoutMs && Math.floor(softTimeoutMs), signal: caller.signal };
    const options = { freshMs, errorMs, leaseMs, waitMs, onRedisDown, ...own } as const;
    const entry = await cache.getEntry(key, options, this.#build(key));
    // Where fences come again, a late builder may be told that its value is the one that stands; what is stored is not.
    if (profile.restores === 0 || entry.status === "hit")
      checker.read(key, floors, entry.value, entry.fence, entry.status === "stale");
    // A change that is under way makes a read wait for it, or build again.
    const isQuiet = floor === version && freshFloor === version && checker.of(key).version === version;
    if (!profile.countsRequests || !isQuiet) return;
    const [count, wanted] = [this.world.requests() - before, /hit|stale/.test(entry.status) ? 1 : 2];
    if (count !== wanted) this.world.report("I11", `a read that was "${entry.status}" took ${count} requests`);
  }

  /** Reads the data at some time while it runs, and fails now and then. */
  #build(key: string): (context: { readonly fence: number; readonly signal: AbortSignal }) => Promise<Value> {
    const { profile, process, checker, fate } = this.world;
    const [least, most] = profile.buildMs;
    const [beforeMs, afterMs] = [this.draw("before", least, most) / 2, this.draw("after", least, most) / 2];
    const fails = fate.fault(this.named("build fails"), profile.failures);
    return async ({ fence, signal }) => {
      const ends = checker.buildBegins(key, fence);
      signal.addEventListener("abort", ends); // it runs on, but as one that nobody counts on
      await process.sleep(beforeMs);
      const { version } = checker.of(key);
      await process.sleep(afterMs);
      ends();
      if (fails) throw new Error("the database is down");
      return { version, fence };
    };
  }
}

/** Changes what stands behind one key, and tells the cache: that it is void, softly or not, or now and then the new value. */
export class Changer extends Actor {
  readonly #key: string;

  constructor(world: CacheWorkload, key: string) {
    super(world, `changer of ${key}`);
    this.#key = key;
  }

  protected pauseMs(): number {
    return -this.world.profile.changeEveryMs * Math.log(1 - this.draw("pause", 0, 1));
  }

  protected async act(): Promise<void> {
    const { cache, checker, profile } = this.world;
    const version = checker.changes(this.#key);
    const way = this.draw("set", 0, 1);
    const isSoft = way > 0.6;
    if (way > 0.25) await cache.invalidate(this.#key, { soft: isSoft });
    else if (!(await cache.set(this.#key, { version, fence: 0 }, profile))) return;
    checker.told(this.#key, version, isSoft);
  }
}
