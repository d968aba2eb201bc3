/** One Redis: the shipped in-process one on a clock of its own, which may crash, forget, fill up or step. */
import { run } from "../../adapters/memory/commands.ts";
import { Keyspace } from "../../adapters/memory/keyspace.ts";
import { type Command, type Reply, ReplyError } from "../../src/command.ts";
import { epochMs } from "./process.ts";
import type { Timeline } from "./timeline.ts";

/** Stands for whatever is not a string. */
export const anotherType = "another type";

/** Out of memory: writes are refused, deletions are not. What a script wraps in `pcall` is skipped. */
class FullKeyspace extends Keyspace {
  isFull = false;
  /** The strings that were last saved, and when each expires. */
  readonly #saved = new Map<string, readonly [value: string, expiresAt: number]>();
  readonly #keys = new Set<string>();

  save(): void {
    this.#saved.clear();
    for (const key of this.#keys) {
      const value = this.peek(key);
      if (value !== null) this.#saved.set(key, [value, this.nowMs + this.pttl(key)]);
    }
  }

  /** Forgets what has not been saved. */
  restore(): void {
    this.clear();
    for (const [key, [value, expiresAt]] of this.#saved) {
      if (expiresAt > this.nowMs) super.set(key, value, expiresAt - this.nowMs);
    }
  }

  override set(...args: Parameters<Keyspace["set"]>): void {
    this.#keys.add(args[0]);
    if (!this.isFull) super.set(...args);
    else if (!args[0].includes(":void:")) throw new ReplyError("OOM command not allowed when used memory is full");
  }
}

export class SimNode {
  readonly label: string;
  readonly rate: number;
  isDown: boolean = false;
  /** How much longer each way to it takes than to others. */
  farMs: number = 0;
  /** Its grants are never slow. */
  isPrompt: boolean = false;
  readonly #timeline: Timeline;
  readonly #redis = new FullKeyspace();
  #offMs: number;

  constructor(label: string, timeline: Timeline, rate: number, skewMs: number) {
    this.label = label;
    this.#timeline = timeline;
    this.rate = rate;
    this.#offMs = epochMs + skewMs;
    this.#redis.startedUs = 0; // up for long
  }

  /** @throws ReplyError */
  execute(command: Command): Reply {
    return run(this.#look(), command);
  }

  /** The token at a lock's key, if any. */
  holder(key: string): string | undefined {
    const redis = this.#look();
    return redis.peek(key) ?? (redis.has(key) ? anotherType : undefined);
  }

  /** A field of a cache's entry, if any. */
  field(key: string, name: string): string | undefined {
    const redis = this.#look();
    return redis.type(key) === "hash" ? redis.hash(key)?.get(name) : undefined;
  }

  /** What is left of a key, in true ms; 0 where it is gone, Infinity where it has no expiry. */
  leftMs(key: string): number {
    const redis = this.#look();
    const pttl = redis.pttl(key);
    if (pttl === -1) return Infinity;
    // A key still lives in the very millisecond in which it expires.
    return pttl === -2 ? 0 : (redis.nowMs + pttl + 1 - this.#wall()) / this.rate;
  }

  /** When a key expires, by this server's clock; that of an absent one has passed for ever. */
  expiresAt(key: string): number {
    const redis = this.#look();
    const pttl = redis.pttl(key);
    return pttl === -1 ? Infinity : pttl === -2 ? -Infinity : redis.nowMs + pttl;
  }

  restart(forgets: boolean): void {
    this.isDown = false;
    // Redis takes its uptime from two whole seconds, so it may tell one that is longer by almost another.
    this.#redis.startedUs = 1e6 * Math.floor(this.#look().nowUs / 1e6);
    if (forgets) this.#redis.restore();
  }

  /** Takes a snapshot, which is all that a restart may not forget. */
  save(): void {
    this.#look().save();
  }

  set isFull(isFull: boolean) {
    this.#redis.isFull = isFull;
  }

  get isFull(): boolean {
    return this.#redis.isFull;
  }

  step(ms: number): void {
    this.#offMs += ms;
  }

  /** Sets the clock to an instant in µs. */
  setClock(us: number): void {
    this.#offMs += (us + 0.5) / 1_000 - this.#wall();
  }

  #wall(): number {
    return this.#offMs + this.rate * this.#timeline.now;
  }

  #look(): FullKeyspace {
    this.#redis.nowUs = Math.floor(this.#wall() * 1_000);
    return this.#redis;
  }
}
