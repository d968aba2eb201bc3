import { readClock } from "./evaluate.ts";

/**
 * RECOVER: looks at one claimed task, and puts it back in line if nobody is at work on it any more.
 *
 * KEYS task, lock, totals, claimed, failed, incidents, ready lists by priority (3)
 * ARGV id, ms within which a claimed task must be started, ms without renewal after which even a locked one is taken away,
 *   '1' to take it away in any case
 *
 * Replies:
 *   'well'           it runs under its lease, or has been claimed only just now
 *   'moved'          it is not claimed any more
 *   'never-started'  put back: claimed, but not started in time; the worker died before it had the lock, or the claim's
 *                    reply was lost
 *   'lease-ended'    put back: it ran, and its lock is gone
 *   'overheld'       put back, its lock broken: not renewed for twice its lease, so the lock should have ended by itself
 *   'silent'         put back, its lock broken: a long lease that was not renewed for too long
 *   'taken-back'     put back, its lock broken, since that was asked for
 *
 * What was its last attempt goes to the last resort instead of back. The worker that lost it may still be at work: its
 * reports are refused, as the state or the fence is no longer its own.
 *
 * The moment of a claim is not written by CLAIM, which knows no task before it has one: it is the first look that counts.
 */
export const recoverScript: string = `
${readClock}
local task = redis.call('HMGET', KEYS[1], 'state', 'renewedAt', 'leaseMs', 'seenAt', 'attempts', 'maxAttempts', 'priority',
  'worker')
local running = task[1] == 'running'
if not redis.call('LPOS', KEYS[4], ARGV[1]) then return 'moved' end
if not running and task[1] ~= 'pending' then
  redis.call('LREM', KEYS[4], 0, ARGV[1])
  return 'moved'
end

local locked = redis.call('EXISTS', KEYS[2]) == 1
local since = tonumber((running and task[2] or task[4]) or now)
local why
if ARGV[4] == '1' then why = 'taken-back'
elseif running and not locked then why = 'lease-ended'
elseif running and now - since > 2 * task[3] then why = 'overheld'
elseif now - since > tonumber(ARGV[3]) then why = 'silent'
elseif not running and not locked and now - since > tonumber(ARGV[2]) then why = 'never-started' end
if not why then
  if not running then redis.call('HSETNX', KEYS[1], 'seenAt', now) end
  return 'well'
end

local last = running and tonumber(task[5]) >= tonumber(task[6])
redis.call('HSET', KEYS[1], 'state', last and 'failed' or 'pending', 'error', why, 'endedAt', now)
redis.call('HDEL', KEYS[1], 'seenAt')
redis.call('DEL', KEYS[2])
redis.call('LREM', KEYS[4], 0, ARGV[1])
redis.call('LPUSH', last and KEYS[5] or KEYS[7 + task[7]], ARGV[1])
redis.call('LPUSH', KEYS[6], string.format('%.0f %s %s %s', now, ARGV[1], why, running and task[8] or '-'))
redis.call('LTRIM', KEYS[6], 0, 49)
redis.call('HINCRBY', KEYS[3], 'recovered', 1)
if last then redis.call('HINCRBY', KEYS[3], 'failed', 1) end
return why
`.trim();
