/**
 * The scripts of the cache in TypeScript, held to their Lua as those of the lock are. The fields are in
 * `src/scripts/entry.ts`.
 *
 * @module
 */
import type { Reply } from "../../src/command.ts";
import { deleteFields, setFields } from "./hashes.ts";
import type { Keyspace } from "./keyspace.ts";
import { type Twin, tonumber } from "./twin.ts";

export const elect: Twin = (redis, entry, token, leaseMs, codec, mode) => {
  const { n, get, fence, write } = open(redis, entry);
  const { nowMs: now } = redis;
  const left = n("lu") - now;
  const payload = get("p") ?? null;
  const isFresh = now < n("fu") && payload?.startsWith(codec);
  const took = n("ls") > 0 ? now - n("ls") : 0;
  const reply = (verdict: number, ms: number): Reply => {
    return [verdict, n("lf"), n("f"), ms, took, n("d"), verdict === 2 ? payload : null];
  };
  if (left > 0 && get("t") === token) return reply(1, left);
  if (mode !== "2") {
    if (isFresh) return reply(2, n("fu") - now);
    if (mode === "0") return reply(0, 0);
    if (left > 0) return reply(3, left);
    if (now < n("bu")) return reply(4, n("bu") - now);
  }
  write({ t: token, lf: fence, ls: mode === "2" ? 0 : now, lu: now + Number(leaseMs) });
  return reply(1, Number(leaseMs));
};

export const commit: Twin = (redis, entry, token, fence, codec, payload, freshMs) => {
  const { n, get, isMine, write } = open(redis, entry);
  const { nowMs: now } = redis;
  const own = Number(fence);
  if (get("f") === fence) return [1, own];
  if (!isMine(token, fence)) {
    const why = get("lf") === undefined ? 0 : n("fl") > own ? -1 : -2;
    const newer = n("f") > own && now < n("fu") && get("p")?.startsWith(codec);
    const reply = [why, n("f"), newer ? (get("p") ?? null) : null];
    if (get("t") === token) deleteFields(redis, entry, "lu");
    return reply;
  }
  const usual = n("ls") > 0 ? usualMs(n("d"), Math.max(1, now - n("ls"))) : n("d");
  write({ p: payload, f: fence, fu: now + Number(freshMs), d: usual, lu: 0, e: 0, bu: 0 });
  return [1, own];
};

function usualMs(former: number, took: number): number {
  if (former === 0) return took;
  return Math.round(took < former ? 0.5 * former + 0.5 * took : 0.7 * former + 0.3 * took);
}

export const fail: Twin = (redis, entry, token, fence, failed) => {
  const { n, isMine, write } = open(redis, entry);
  if (!isMine(token, fence)) return [0, 0];
  deleteFields(redis, entry, "lu");
  if (failed === "0") return [1, 0];
  const wait = Math.min(30_000, 1_000 * 2 ** n("e"));
  write({ e: n("e") + 1, bu: redis.nowMs + wait });
  return [1, wait];
};

export const invalidate: Twin = (redis, entry) => {
  const { n, fence, write } = open(redis, entry);
  const usual = n("d");
  redis.delete(entry);
  write({ lf: fence, fl: fence, d: usual });
  return fence;
};

/** What every script on an entry begins with. */
function open(redis: Keyspace, entry: string) {
  const get = (field: string): string | undefined => redis.hash(entry)?.get(field);
  const n = (field: string): number => tonumber(get(field));
  return {
    get,
    n,
    fence: Math.max(redis.nowUs, n("lf") + 1),
    isMine: (token: string, fence: string) => get("t") === token && get("lf") === fence && n("lu") > 0,
    write(fields: Record<string, string | number>): void {
      const written = Object.entries(fields).map(([field, value]) => [field, String(value)] as const);
      setFields(redis, entry, written);
      const last = Math.max(redis.nowMs, n("fu"), n("lu"), n("bu"));
      redis.expire(entry, last - redis.nowMs + 60_000);
    },
  };
}
