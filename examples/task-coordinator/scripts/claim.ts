import { readClock } from "./evaluate.ts";

/**
 * CLAIM: takes the first task in line, the most urgent first, after putting those in line that have become due.
 *
 * KEYS ready lists by priority (3), delayed, claimed
 *
 * Replies 'i' and the id, or nil where there is none. A claim whose reply is lost, or whose worker dies before it has the
 * lock, leaves an id among the claimed that nobody starts: RECOVER puts it back.
 */
export const claimScript: string = `
${readClock}
for _, due in ipairs(redis.call('ZRANGE', KEYS[4], '-inf', now, 'BYSCORE', 'LIMIT', 0, 100)) do
  redis.call('RPUSH', KEYS[1 + due:sub(1, 1)], due:sub(3))
  redis.call('ZREM', KEYS[4], due)
end
for place = 1, 3 do
  local id = redis.call('LMOVE', KEYS[place], KEYS[5], 'LEFT', 'RIGHT')
  if id then return 'i' .. id end
end
return false
`.trim();
