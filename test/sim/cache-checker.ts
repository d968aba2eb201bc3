/**
 * Watches caches, and knows nothing of how they work: which version of the data each read got, and which changes were
 * over before it began.
 *
 *   C1  nobody reads what was built before an invalidation, or a `set`, that was over before the read began
 *   C2  no two builds have one fence
 *   C3  a fence stands for one value
 *   C4  what is stored under a key only goes forward, by its fence
 *   C5  every entry has an end
 *   C6  where nothing goes wrong, one build of a key runs at a time
 *   C7  nobody is given as fresh what was built before a soft invalidation that was over before the read began
 */
import type { Call } from "./call.ts";
import type { Fate } from "./fate.ts";
import type { Message, Witness } from "./network.ts";
import type { SimNode } from "./node.ts";
import type { CacheProfile } from "./profiles.ts";
import type { Timeline } from "./timeline.ts";
import type { Report } from "./violation.ts";

/** What a build makes: the data as it was, and which build it was. */
export interface Value {
  readonly version: number;
  /** Of the build; 0 for a `set`, or without Redis. */
  readonly fence: number;
}

/** What was told before a read began. */
export type Floors = Pick<Data, "floor" | "freshFloor">;

interface Data {
  /** What the database holds now. */
  version: number;
  /** What every read that begins now must get at least: as an old value, and as a fresh one. */
  floor: number;
  freshFloor: number;
  /** The last election that was won, as it was sent, and its fence. */
  winner: Call | undefined;
  winnerFence: number;
  /** The tokens of all that were won. */
  readonly winners: Set<string>;
  highestStored: number;
  /** Elections up to this fence are void. */
  voidUpTo: number;
  readonly fences: Set<number>;
  /** By fence. */
  readonly building: Set<number>;
}

export class CacheChecker implements Witness {
  readonly #timeline: Timeline;
  readonly #fate: Fate;
  readonly #profile: CacheProfile;
  readonly #report: Report;
  readonly #data = new Map<string, Data>();
  progress = 0;

  constructor(timeline: Timeline, fate: Fate, profile: CacheProfile, report: Report) {
    this.#timeline = timeline;
    this.#fate = fate;
    this.#profile = profile;
    this.#report = report;
  }

  /** As long as no clock goes back after its server has lost its data. */
  get #fencesGrow(): boolean {
    return this.#profile.restores === 0;
  }

  /** The data behind a key, by its name or by the entry's key in Redis. */
  of(name: string): Data {
    const key = /\{(.*)\}/.exec(name)?.[1] ?? name;
    let data = this.#data.get(key);
    if (data === undefined) {
      data = {
        version: 0,
        floor: 0,
        freshFloor: 0,
        winner: undefined,
        winnerFence: 0,
        winners: new Set(),
        highestStored: 0,
        voidUpTo: 0,
        fences: new Set(),
        building: new Set(),
      };
      this.#data.set(key, data);
    }
    return data;
  }

  /** The data has changed; whoever changed it tells the cache next. */
  changes(key: string): number {
    const data = this.of(key);
    data.version += 1;
    return data.version;
  }

  /** The cache has been told of a change, and has said so; softly, if the value from before may still be served as old. */
  told(key: string, version: number, softly: boolean): void {
    const data = this.of(key);
    data.freshFloor = version;
    if (!softly) data.floor = version;
  }

  buildBegins(key: string, fence: number): () => void {
    const { fences, building, voidUpTo } = this.of(key);
    if (this.#fencesGrow && fence > 0 && fences.has(fence))
      this.#report("C2", `two builds of ${key} have the fence ${fence}`);
    fences.add(fence);
    const isAlone = fence <= voidUpTo || [...building].every((other) => other <= voidUpTo);
    if (this.#profile.buildsAlone && !isAlone) this.#report("C6", `two builds of ${key} run at once`);
    building.add(fence);
    return () => building.delete(fence);
  }

  /** A read that began under these floors has been served. */
  read(key: string, { floor, freshFloor }: Floors, value: Value, fence: number, isOld: boolean): void {
    this.progress += 1;
    const { version } = value;
    if (version < floor)
      this.#report("C1", `a read of ${key} got version ${version}, ${floor} was told before it began`);
    if (!isOld && version < freshFloor)
      this.#report("C7", `a read of ${key} got version ${version} as fresh, ${freshFloor} was told before it began`);
    if (this.#fencesGrow && fence > 0 && value.fence > 0 && value.fence !== fence) {
      this.#report("C3", `the fence ${fence} of ${key} stands for what was built under ${value.fence}`);
    }
  }

  before(node: SimNode, { name, call: { verb, key, token } }: Message): void {
    const { winner, winnerFence, winners } = this.of(key);
    // A second copy of an old election that is given its old fence as well is no other election to anybody.
    if (verb !== "elect" || winner === undefined || winners.has(token)) return;
    if (!this.#fate.fault(`restore at ${name}`, this.#profile.restores)) return;
    node.restart(true);
    node.setClock(winnerFence);
  }

  after(node: SimNode, { name, call }: Message): void {
    this.#look(node, call);
    const { winner } = this.of(call.key);
    if (call.verb !== "invalidate" || winner === undefined) return;
    const what = `replay after ${name}`;
    if (!this.#fate.fault(what, this.#profile.replays)) return;
    this.#timeline.after(this.#fate.uniform(`${what} when`, 0, 20), () => {
      if (node.isDown || node.isFull) return;
      node.execute(winner.command);
      this.#look(node, winner);
    });
  }

  /** What a call has made of its entry. */
  #look(node: SimNode, call: Call): void {
    const { key, verb, token, args } = call;
    const data = this.of(key);
    const stored = Number(node.field(key, "f") ?? 0);
    if (this.#fencesGrow && stored > 0 && stored < data.highestStored)
      this.#report("C4", `${key} went back to the fence ${stored}`);
    data.highestStored = Math.max(data.highestStored, stored);
    if (node.leftMs(key) === Infinity) this.#report("C5", `${key} has no end after ${verb}`);
    if (verb === "elect" && node.field(key, "t") === token) {
      data.winner = call;
      data.winners.add(token);
      data.winnerFence = Number(node.field(key, "lf"));
    }
    if (verb === "invalidate" || args[3] === "2") data.voidUpTo = Number(node.field(key, "lf"));
  }
}
