/**
 * The entry of a cache: one hash, so that value, election and fence live, move and die together.
 *
 *   p             payload, behind its codec's prefix          f             fence of the payload
 *   fu, su, xu    fresh, stale, rescue until                  t, ls, lu     election: token, start (0 for `set`), end
 *   lf            last fence given                            fl            fence of the last invalidation
 *   d             how long a build usually takes              e, bu         failures in a row, back-off until
 *
 * Instants and durations are in ms by the server's clock, read once a script: no client's clock is ever compared with
 * it. A fence is that clock in µs, or one more than the last: it grows even where the key was lost. A field that is
 * absent, empty or 0 counts as never.
 *
 * @module
 */

/**
 * Begins every script on an entry: `n` reads a field as a number; `s` writes one, as Lua itself prints 14 digits at
 * most; `f` is the next fence; `w` writes fields and leaves a time to live of `least` ms, or of what may be served.
 */
export const entryPrelude: string = `
local t, h, list = redis.call('TIME'), {}, redis.call('HGETALL', KEYS[1])
for i = 1, #list, 2 do h[list[i]] = list[i + 1] end
local us = t[1] * 1000000 + t[2]
local now = math.floor(us / 1000)
local function n(field) return tonumber(h[field] or '') or 0 end
local function s(x) return string.format('%.0f', x) end
local function w(least, ...)
  redis.call('HSET', KEYS[1], ...)
  redis.call('PEXPIRE', KEYS[1], s(math.max(least, n('fu') - now, n('xu') - now)))
end
local f = s(math.max(us, n('lf') + 1))
`.trim();
