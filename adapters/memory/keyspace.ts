/**
 * The keys of an in-process Redis: strings, hashes and lists, each with an optional expiry in ms.
 *
 * @module
 */
import { wrongType } from "./arguments.ts";

type Value = string | Map<string, string> | string[];

interface Entry {
  value: Value;
  /** By the server's clock, in ms; undefined lives for ever. */
  expiresAt: number | undefined;
}

/** Lazy expiry by the same rule as Redis: a key still lives in the very millisecond that it expires in. */
export class Keyspace {
  /** The server's clock in µs. Set once a command, so that a script sees no key expire half-way through, as in Redis. */
  nowUs = 0;
  /** When the server was started, by its clock: undefined until somebody asks for how long it has been up. */
  startedUs: number | undefined;
  readonly #entries = new Map<string, Entry>();
  #sweepAt = 1_024;

  get nowMs(): number {
    return Math.floor(this.nowUs / 1_000);
  }

  get size(): number {
    this.#sweep();
    return this.#entries.size;
  }

  has(key: string): boolean {
    return this.#live(key) !== undefined;
  }

  /** The string at a key as MGET sees it: null where there is none, and where the key is of another type. */
  peek(key: string): string | null {
    const value = this.#live(key)?.value;
    return typeof value === "string" ? value : null;
  }

  /** @throws ReplyError WRONGTYPE, as `hash` and `list` do */
  string(key: string): string | null {
    const value = this.#live(key)?.value ?? null;
    if (value === null || typeof value === "string") return value;
    throw wrongType();
  }

  hash(key: string): Map<string, string> | undefined {
    const value = this.#live(key)?.value;
    if (value === undefined || value instanceof Map) return value;
    throw wrongType();
  }

  list(key: string): string[] | undefined {
    const value = this.#live(key)?.value;
    if (value === undefined || Array.isArray(value)) return value;
    throw wrongType();
  }

  type(key: string): "none" | "string" | "hash" | "list" {
    const value = this.#live(key)?.value;
    if (value === undefined) return "none";
    return typeof value === "string" ? "string" : value instanceof Map ? "hash" : "list";
  }

  /** Puts a value in place of whatever is there. Without `lifeMs` it never expires, whatever did before. */
  set(key: string, value: Value, lifeMs?: number): void {
    if (this.#entries.size >= this.#sweepAt) this.#sweep();
    this.#entries.set(key, { value, expiresAt: lifeMs === undefined ? undefined : this.nowMs + lifeMs });
  }

  /** Changes a value and leaves its expiry as it is; creates the key if there is none. */
  replace(key: string, value: Value): void {
    const entry = this.#live(key);
    if (entry === undefined) this.set(key, value);
    else entry.value = value;
  }

  /** Whether there was such a key. */
  delete(key: string): boolean {
    return this.has(key) && this.#entries.delete(key);
  }

  clear(): void {
    this.#entries.clear();
  }

  /** What is left in ms; -1 without an expiry, -2 without a key. */
  pttl(key: string): number {
    const entry = this.#live(key);
    if (entry === undefined) return -2;
    return entry.expiresAt === undefined ? -1 : Math.max(0, entry.expiresAt - this.nowMs);
  }

  /** Sets what is left of a key; nothing left deletes it. Whether there was such a key. */
  expire(key: string, lifeMs: number): boolean {
    const entry = this.#live(key);
    if (entry === undefined) return false;
    if (lifeMs <= 0) return this.#entries.delete(key);
    entry.expiresAt = this.nowMs + lifeMs;
    return true;
  }

  #live(key: string): Entry | undefined {
    const entry = this.#entries.get(key);
    if (entry?.expiresAt === undefined || this.nowMs <= entry.expiresAt) return entry;
    this.#entries.delete(key);
    return undefined;
  }

  // Keys that nobody asks for again, such as tombstones, go whenever the number of keys has doubled.
  #sweep(): void {
    for (const key of this.#entries.keys()) this.#live(key);
    this.#sweepAt = Math.max(1_024, 2 * this.#entries.size);
  }
}
