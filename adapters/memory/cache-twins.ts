/**
 * The scripts of the cache in TypeScript, held to their Lua as those of the lock are. The fields are in
 * `src/scripts/entry.ts`.
 *
 * @module
 */
import type { Reply } from "../../src/command.ts";
import { deleteFields, setFields } from "./hashes.ts";
import { type Twin, tonumber } from "./twin.ts";

export const elect: Twin = (redis, entry, token, leaseMs, codec, mode) => {
  const get = (field: string): string | undefined => redis.hash(entry)?.get(field);
  const n = (field: string): number => tonumber(get(field));
  const { nowUs: us, nowMs: now } = redis;
  const payload = get("p") ?? null;
  const age = !payload?.startsWith(codec) ? 0 : now < n("fu") ? 3 : now < n("su") ? 2 : now < n("xu") ? 1 : 0;
  const lease = Number(leaseMs);
  const left = n("lu") - now;
  const reply = (verdict: number, ms: number, took = 0, usual = 0, leastAge = 1): Reply => {
    return [verdict, age, n("lf"), n("f"), ms, took, usual, age >= leastAge ? payload : null];
  };
  if (left > 0 && get("t") === token) return reply(1, left);
  if (mode !== "2") {
    if (age === 3) return reply(2, n("fu") - now);
    if (mode === "0") return reply(0, 0);
    if (left > 0 && n("ls") === 0) return reply(3, left, 0, 0, 2);
    if (left > 0) return reply(3, left, Math.max(0, now - n("ls")), Number(get("d") || -1), 2);
    if (now < n("bu")) return reply(4, n("bu") - now);
  }
  setFields(redis, entry, [
    ["t", token],
    ["lf", String(Math.max(us, n("lf") + 1))],
    ["ls", mode === "2" ? "0" : String(now)],
    ["lu", String(now + lease)],
  ]);
  redis.expire(entry, Math.max(n("xu") - now, lease + Math.max(lease, 60_000)));
  return reply(1, lease);
};

export const commit: Twin = (redis, entry, token, fence, codec, payload, freshMs, staleMs, errorMs) => {
  const hash = redis.hash(entry);
  const n = (field: string): number => tonumber(hash?.get(field));
  const { nowMs: now } = redis;
  if (hash?.get("f") === fence) return [1, n("f")];
  if (hash?.get("t") !== token || hash.get("lf") !== fence) {
    if (hash?.get("t") === token) deleteFields(redis, entry, "t", "ls", "lu");
    const why = !hash?.has("lf") ? 0 : n("fl") > Number(fence) ? -1 : -2;
    const stands = n("f") > Number(fence) && now < n("fu") && hash?.get("p")?.startsWith(codec);
    return stands ? [why, n("f"), hash?.get("p") ?? null] : [why, 0];
  }
  const [fresh, stale, error] = [Number(freshMs), Number(staleMs), Number(errorMs)];
  const last = fresh + Math.max(stale, error);
  setFields(redis, entry, [
    ["p", payload],
    ["f", fence],
    ["fu", String(now + fresh)],
    ["su", String(now + fresh + stale)],
    ["xu", String(now + last)],
    ["d", usualMs(hash.get("d"), n("ls") > 0 ? now - n("ls") : undefined)],
    ["t", ""],
    ...["ls", "lu", "e", "bu"].map((field) => [field, "0"] as const),
  ]);
  redis.expire(entry, last + 60_000);
  return [1, Number(fence)];
};

function usualMs(former = "", took: number | undefined): string {
  if (took === undefined) return former;
  const usual = Number(former);
  if (former === "") return String(took);
  return String(Math.round(took < usual ? 0.5 * usual + 0.5 * took : 0.7 * usual + 0.3 * took));
}

export const fail: Twin = (redis, entry, token, fence, firstMs, longestMs) => {
  const hash = redis.hash(entry);
  if (hash?.get("t") !== token || hash.get("lf") !== fence) return [0, 0];
  deleteFields(redis, entry, "t", "ls", "lu");
  if (firstMs === "0") return [1, 0];
  const failures = tonumber(hash.get("e"));
  const wait = Math.min(Number(longestMs), Number(firstMs) * 2 ** failures);
  setFields(redis, entry, [
    ["e", String(failures + 1)],
    ["bu", String(redis.nowMs + wait)],
  ]);
  redis.expire(entry, Math.max(tonumber(hash.get("xu")) - redis.nowMs, wait + 60_000));
  return [1, wait];
};

export const invalidate: Twin = (redis, entry, mode) => {
  const hash = redis.hash(entry);
  const n = (field: string): number => tonumber(hash?.get(field));
  const fence = Math.max(redis.nowUs, n("lf") + 1);
  const [fresh, stale, rescue] = [n("fu"), n("su"), n("xu")];
  if (mode === "1") redis.delete(entry);
  else {
    deleteFields(redis, entry, "fu", "t", "ls", "lu", "e", "bu");
    if (stale <= fresh) deleteFields(redis, entry, "su");
    if (rescue <= fresh) deleteFields(redis, entry, "xu");
  }
  const life = mode !== "1" && rescue > fresh ? rescue - redis.nowMs : 0;
  setFields(redis, entry, [
    ["lf", String(fence)],
    ["fl", String(fence)],
    ["d", hash?.get("d") ?? ""],
  ]);
  redis.expire(entry, Math.max(60_000, life));
  return fence;
};
