/**
 * The scripts of the lock in TypeScript. `test/scripts.test.ts` holds each against its Lua on a real Redis.
 *
 * @module
 */
import { type Twin, tonumber } from "./twin.ts";

export const acquire: Twin = (redis, lock, fence, tombstone, token, leaseMs) =>
  propose(redis, lock, fence, tombstone, token, leaseMs, "");

/** As acquire, where there is a proposal. */
export const propose: Twin = (redis, lock, fence, tombstone, token, leaseMs, proposal, leastUptimeMs) => {
  const holder = redis.peek(lock);
  let counter = tonumber(redis.peek(fence));
  if (holder !== null) return [holder === token ? 1 : 0, counter, redis.pttl(lock)];
  if (redis.peek(tombstone) !== null) return [-1, counter, 0];
  const now = redis.nowUs;
  let granted = Math.max(counter + 1, now);
  redis.startedUs ??= now;
  const quarantineMs = Number(leastUptimeMs) - 1_000 * Math.floor((now - redis.startedUs) / 1e6);
  if (leastUptimeMs !== undefined && quarantineMs > 0) return [-5, 0, quarantineMs];
  if (proposal !== "") {
    granted = Number(proposal);
    if (granted > now + 86_400_000_000) return [-4, now, 0];
    if (leastUptimeMs !== undefined || counter === 0)
      counter = Math.max(counter, now - 1_000 * Math.min(Number(leaseMs), 86_400_000));
    if (granted <= counter) return [-3, counter, 0];
  }
  redis.set(fence, String(granted), 604_800_000 + Math.max(0, Math.ceil((granted - now) / 1_000)));
  if (redis.has(lock)) return [0, granted, -1];
  redis.set(lock, token, Number(leaseMs));
  return [1, granted, Number(leaseMs)];
};

export const release: Twin = (redis, lock, tombstone, token, tombstoneMs) => {
  const mine = redis.peek(lock) === token;
  const verdict = mine ? 1 : redis.has(lock) ? -1 : 0;
  if (mine) redis.delete(lock);
  if (tombstoneMs !== "0") redis.set(tombstone, "1", Number(tombstoneMs));
  return verdict;
};

export const extend: Twin = (redis, lock, token, leaseMs) => {
  if (redis.peek(lock) !== token) return [redis.has(lock) ? -1 : 0, 0];
  const left = redis.pttl(lock);
  const want = Number(leaseMs);
  if (left < want) redis.expire(lock, want);
  return [1, Math.max(left, want)];
};

export const inspect: Twin = (redis, lock, fence) => {
  const value = redis.peek(lock);
  return [value === null ? "n" : `v${value}`, tonumber(redis.peek(fence)), redis.pttl(lock)];
};

export const fencedSet: Twin = (redis, key, fence, text, value, ttlMs) => {
  if (Number(text) < tonumber(redis.string(fence))) return 0;
  const ahead = Math.max(0, Math.ceil((Number(text) - redis.nowUs) / 1_000));
  redis.set(fence, text, Math.max(604_800_000, Number(ttlMs)) + ahead);
  redis.set(key, value, Number(ttlMs) || undefined);
  return 1;
};
