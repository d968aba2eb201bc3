import { readClock } from "./evaluate.ts";

/**
 * START: begins an attempt at a claimed task, for the holder of its lock.
 *
 * KEYS task, lock, totals, claimed
 * ARGV token, fence, id, lease in ms, name of the worker
 *
 * Replies: { 'started', 'p' and payload, attempt, most attempts, place of the priority }, the same again for the same
 * fence; 'lost': the lock is not this token's, or has had a newer holder; 'elsewhere': it is not to be started now, as it is
 * done, runs, or is back in line.
 */
export const startScript: string = `
${readClock}
local task = redis.call('HMGET', KEYS[1], 'state', 'fence', 'payload', 'attempts', 'maxAttempts', 'priority')
local state, fence, attempt = task[1], tonumber(task[2] or '0'), tonumber(task[4])
if redis.pcall('GET', KEYS[2]) ~= ARGV[1] or fence > tonumber(ARGV[2]) then return 'lost' end
if state == 'pending' and fence < tonumber(ARGV[2]) and redis.call('LPOS', KEYS[4], ARGV[3]) then
  attempt = attempt + 1
  redis.call('HSET', KEYS[1], 'state', 'running', 'fence', ARGV[2], 'attempts', attempt, 'leaseMs', ARGV[4],
    'worker', ARGV[5], 'startedAt', now, 'renewedAt', now, 'percent', 0, 'note', '')
  redis.call('HDEL', KEYS[1], 'seenAt')
  redis.call('HINCRBY', KEYS[3], 'attempts', 1)
elseif state ~= 'running' or fence ~= tonumber(ARGV[2]) then
  if state ~= 'running' and state ~= 'pending' then redis.call('LREM', KEYS[4], 0, ARGV[3]) end
  return 'elsewhere'
end
return { 'started', 'p' .. task[3], attempt, tonumber(task[5]), tonumber(task[6]) }
`.trim();

/**
 * What every report begins with: it counts only if its fence is that of the running attempt, and the lock still its
 * token's. So one whose lease has ended cannot report, whether or not another has taken over yet.
 */
const guard = `
${readClock}
local task = redis.call('HMGET', KEYS[1], 'state', 'fence', 'reported', 'attempts', 'maxAttempts', 'priority')
local mine = task[1] == 'running' and task[2] == ARGV[2] and redis.pcall('GET', KEYS[2]) == ARGV[1]
if task[3] ~= ARGV[2] and not mine then redis.call('HINCRBY', KEYS[3], 'refused', 1) end
`.trim();

/**
 * PROGRESS: how far the running attempt has come, and that its worker is alive.
 *
 * KEYS task, lock, totals
 * ARGV token, fence, percent ('' leaves it and the note as they are), note
 *
 * Replies 'noted' or 'refused'.
 */
export const progressScript: string = `
${guard}
if not mine then return 'refused' end
redis.call('HSET', KEYS[1], 'renewedAt', now)
if ARGV[3] ~= '' then redis.call('HSET', KEYS[1], 'percent', ARGV[3], 'note', ARGV[4]) end
return 'noted'
`.trim();

/**
 * COMPLETE: the running attempt has succeeded.
 *
 * KEYS task, lock, totals, claimed, completed
 * ARGV token, fence, id, result, how long to keep the task in ms, how many of the latest to list
 *
 * Replies 'completed', also to a repeated report, or 'refused'.
 */
export const completeScript: string = `
${guard}
if task[3] == ARGV[2] then return task[1] == 'completed' and 'completed' or 'refused' end
if not mine then return 'refused' end
redis.call('HSET', KEYS[1], 'state', 'completed', 'reported', ARGV[2], 'result', ARGV[4], 'percent', 100, 'endedAt', now)
redis.call('HDEL', KEYS[1], 'error')
redis.call('PEXPIRE', KEYS[1], ARGV[5])
redis.call('LREM', KEYS[4], 0, ARGV[3])
redis.call('LPUSH', KEYS[5], ARGV[3])
redis.call('LTRIM', KEYS[5], 0, ARGV[6] - 1)
redis.call('HINCRBY', KEYS[3], 'completed', 1)
return 'completed'
`.trim();

/**
 * FAIL: the running attempt has failed. The task waits for its next one, or, if this was the last, goes to the last resort.
 *
 * KEYS task, lock, totals, claimed, delayed, failed
 * ARGV token, fence, id, error, ms until the next attempt
 *
 * Replies 'retrying' or 'failed', also to a repeated report, or 'refused'.
 */
export const failScript: string = `
${guard}
local last = tonumber(task[4]) >= tonumber(task[5])
if task[3] == ARGV[2] then return ({ completed = 'refused', failed = 'failed' })[task[1]] or 'retrying' end
if not mine then return 'refused' end
redis.call('HSET', KEYS[1], 'state', last and 'failed' or 'pending', 'reported', ARGV[2], 'error', ARGV[4], 'endedAt', now)
redis.call('LREM', KEYS[4], 0, ARGV[3])
if last then redis.call('LPUSH', KEYS[6], ARGV[3])
else redis.call('ZADD', KEYS[5], now + ARGV[5], task[6] .. ':' .. ARGV[3]) end
redis.call('HINCRBY', KEYS[3], last and 'failed' or 'retried', 1)
return last and 'failed' or 'retrying'
`.trim();
