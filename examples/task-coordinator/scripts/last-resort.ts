/**
 * RETRY: puts a task of the last resort back in line, with all its attempts before it again.
 *
 * KEYS task, failed, ready lists by priority (3)
 * ARGV id
 *
 * Replies 1, or 0 where it is not among the failed.
 */
export const retryScript: string = `
if redis.call('LREM', KEYS[2], 0, ARGV[1]) == 0 then return 0 end
redis.call('HSET', KEYS[1], 'state', 'pending', 'attempts', 0)
redis.call('RPUSH', KEYS[3 + redis.call('HGET', KEYS[1], 'priority')], ARGV[1])
return 1
`.trim();

/**
 * DISCARD: forgets a task of the last resort. Its id may be used again.
 *
 * KEYS task, failed
 * ARGV id
 *
 * Replies 1, or 0 where it is not among the failed.
 */
export const discardScript: string = `
if redis.call('LREM', KEYS[2], 0, ARGV[1]) == 0 then return 0 end
redis.call('DEL', KEYS[1])
return 1
`.trim();
