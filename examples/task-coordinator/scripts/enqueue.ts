import { readClock } from "./evaluate.ts";

const create = `
local payload = redis.call('HGET', KEYS[1], 'payload')
if payload then return payload == ARGV[2] and 'known' or 'conflict' end
redis.call('HSET', KEYS[1], 'state', 'pending', 'payload', ARGV[2], 'priority', ARGV[3], 'attempts', 0,
  'maxAttempts', ARGV[5], 'enqueuedAt', now)
if ARGV[4] == '0' then redis.call('RPUSH', KEYS[2], ARGV[1])
else redis.call('ZADD', KEYS[3], now + ARGV[4], ARGV[3] .. ':' .. ARGV[1]) end
redis.call('HINCRBY', KEYS[4], 'enqueued', 1)
return 'new'
`.trim();

/**
 * ENQUEUE: puts a task in line, once for each id, however often it is asked to.
 *
 * KEYS task, ready list of its priority, delayed, totals
 * ARGV id, payload, place of the priority, delay in ms ('0': none), most attempts
 *
 * Replies: 'new'; 'known': a task of this id and payload is there, in whatever state; 'conflict': one of another payload.
 */
export const enqueueScript: string = `${readClock}\n${create}`;

/**
 * FIRE: puts the task of a schedule's slot in line, unless this slot or a later one has been fired.
 *
 * KEYS as ENQUEUE, and schedules
 * ARGV as ENQUEUE, and name of the schedule, the slot's begin in ms, how far a slot may begin in the server's future, in ms
 *
 * Replies: as ENQUEUE; 'past': the slot has been fired, or a later one; 'ahead': whoever asks has a clock that is wrong, and
 * would use up slots that are still to come.
 */
export const fireScript: string = `
${readClock}
if tonumber(ARGV[7]) - now > tonumber(ARGV[8]) then return 'ahead' end
if tonumber(ARGV[7]) <= tonumber(redis.call('HGET', KEYS[5], ARGV[6]) or '-1') then return 'past' end
redis.call('HSET', KEYS[5], ARGV[6], ARGV[7])
${create}
`.trim();
