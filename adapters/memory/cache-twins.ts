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

export const elect: Twin = (redis, entry, token, leaseMs, codec, mode, staleMs) => {
  const { n, get, fence, write, reply, known } = open(redis, entry);
  const { nowMs: now } = redis;
  const left = n("lu") - now;
  const age = now - n("fu");
  const payload = known(codec);
  if (left > 0 && get("t") === token) return reply("won", left, payload);
  if (mode !== "2") {
    if (payload !== null && age < 0) return reply("hit", -age, payload);
    if (mode === "0") return reply("none", 0, payload);
    if (left > 0) return reply("busy", left, age < Number(staleMs) ? payload : null);
    if (now < n("bu")) return reply("back-off", n("bu") - now, payload);
  }
  write({ t: token, lf: fence, ls: mode === "2" ? 0 : now, lu: now + Number(leaseMs) });
  return reply("won", Number(leaseMs), payload);
};

export const commit: Twin = (redis, entry, token, fence, codec, payload, freshMs, usefulMs) => {
  const { n, get, isMine, write, reply, known } = open(redis, entry);
  const { nowMs: now } = redis;
  if (get("f") === fence) return reply("stored", 0, null);
  if (!isMine(token, fence)) {
    const own = Number(fence);
    const why = get("lf") === undefined ? "gone" : n("fl") > own ? "invalidated" : "superseded";
    const refusal = reply(why, 0, n("f") > own && now < n("fu") ? known(codec) : null);
    if (get("t") === token) deleteFields(redis, entry, "lu");
    return refusal;
  }
  const usual = n("ls") > 0 ? usualMs(n("d"), now - n("ls") + 1) : n("d");
  const [fu, xu] = [now + Number(freshMs), now + Number(usefulMs)];
  write({ p: payload, f: fence, fu, xu, d: usual, lu: 0, e: 0, bu: 0 });
  return reply("stored", 0, null);
};

function usualMs(former: number, took: number): number {
  if (former === 0) return took;
  return Math.round(took < former ? 0.5 * former + 0.5 * took : 0.7 * former + 0.3 * took);
}

export const tend: Twin = (redis, entry, token, fence, codec, lease) => {
  const { n, isMine, write, reply, known } = open(redis, entry);
  if (!isMine(token, fence)) return reply("over", 0, known(codec));
  if (Number(lease) > 0) {
    write({ lu: Math.max(n("lu"), redis.nowMs + Number(lease)) });
    return reply("renewed", n("lu") - redis.nowMs, null);
  }
  const givenUp = reply("over", 0, null);
  deleteFields(redis, entry, "lu");
  if (lease === "0") return givenUp;
  const wait = Math.min(30_000, 1_000 * 2 ** n("e"));
  write({ e: n("e") + 1, bu: redis.nowMs + wait });
  return reply("failed", wait, known(codec));
};

export const invalidate: Twin = (redis, entry, mode) => {
  const { n, fence, write, reply } = open(redis, entry);
  const fu = mode === "1" ? Math.min(n("fu"), redis.nowMs) : 0;
  const left = { lf: fence, fl: fence, fu, d: n("d") };
  if (mode === "1") deleteFields(redis, entry, "fu", "lu", "e", "bu");
  else redis.delete(entry);
  write(left);
  return reply("invalidated", 0, null);
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
    known(codec: string): string | null {
      const payload = get("p");
      return redis.nowMs < n("xu") && payload?.startsWith(codec) ? payload : null;
    },
    reply(word: string, leftMs: number, payload: string | null): Reply {
      const { nowMs: now } = redis;
      return [word, payload, n("lf"), n("f"), leftMs, now - n("fu"), now - n("ls"), n("d")];
    },
    write(fields: Record<string, string | number>): void {
      const written = Object.entries(fields).map(([field, value]) => [field, String(value)] as const);
      setFields(redis, entry, written);
      const last = Math.max(redis.nowMs, n("xu"), n("lu"), n("bu"));
      redis.expire(entry, last - redis.nowMs + 60_000);
    },
  };
}
