import { readClock } from "./evaluate.ts";

/**
 * OVERVIEW: how much there is of everything, and which tasks come first. Changes nothing, yet is no EVAL_RO, as a replica
 * might answer that with the past.
 *
 * KEYS ready lists by priority (3), delayed, claimed, failed, completed, incidents, totals, sweeper's lock, its fence
 * ARGV how many ids of each list
 *
 * Replies { now, sweeper's remaining ms (-2 where it is free), 's' and its fence, lengths of the first seven, then for each of
 * the first eight what comes first, the delayed ones with the moment they are due, the counters' names and values }, every text
 * behind an 's'.
 */
export const overviewScript: string = `
${readClock}
local function texts(list)
  for place, text in ipairs(list) do list[place] = 's' .. text end
  return list
end
local last = ARGV[1] - 1
local lengths, firsts = {}, {}
for place = 1, 8 do
  local delayed = place == 4
  if place < 8 then lengths[place] = redis.call(delayed and 'ZCARD' or 'LLEN', KEYS[place]) end
  firsts[place] = texts(delayed and redis.call('ZRANGE', KEYS[place], 0, last, 'WITHSCORES')
    or redis.call('LRANGE', KEYS[place], 0, last))
end
return { now, redis.call('PTTL', KEYS[10]), 's' .. (redis.call('GET', KEYS[11]) or '0'), lengths, firsts,
  texts(redis.call('HGETALL', KEYS[9])) }
`.trim();

/**
 * CLAIMED: the ids of all claimed tasks.
 *
 * KEYS claimed
 *
 * Replies with a list, each id behind an 's'.
 */
export const claimedScript: string = `
local ids = redis.call('LRANGE', KEYS[1], 0, -1)
for place, id in ipairs(ids) do ids[place] = 's' .. id end
return ids
`.trim();

/** The fields that DETAILS reads, in its order. */
export const taskFields = [
  "state",
  "payload",
  "priority",
  "attempts",
  "maxAttempts",
  "enqueuedAt",
  "worker",
  "fence",
  "leaseMs",
  "startedAt",
  "renewedAt",
  "endedAt",
  "percent",
  "note",
  "result",
  "error",
] as const;

/**
 * DETAILS: what is known of some tasks, and of their locks.
 *
 * KEYS task and lock of each, in turn
 *
 * Replies for each task { remaining ms of its lock, the fields above }: -2 where it is not locked, -1 where the lock has no
 * end; every text behind an 's' and cut at 500 bytes, nil where there is none.
 */
export const detailsScript: string = `
local found = {}
for place = 1, #KEYS, 2 do
  local task = redis.call('HMGET', KEYS[place], ${taskFields.map((name) => `'${name}'`).join(", ")})
  for field, text in ipairs(task) do task[field] = text and 's' .. text:sub(1, 500) end
  found[#found + 1] = { redis.call('PTTL', KEYS[place + 1]), task }
end
return found
`.trim();
