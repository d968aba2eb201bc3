/**
 * The entry of a cache: one hash, so that value, election and fence live, move and die together.
 *
 *   p             payload, behind its codec's prefix          f             fence of the payload
 *   fu, su, xu    fresh, stale, rescue until                  t, ls, lu     election: token, start (0 for `set`), end
 *   lf            last fence given                            fl            fence of the last invalidation
 *   d             how long a build usually takes              e, bu         failures in a row, back-off until
 *
 * Instants and durations are in ms by the server's clock, read once a script: no client's clock is ever compared with
 * it. A fence is that clock in µs, or one more than the last: it grows even where the key was lost. Fields that are
 * absent, empty or 0 count as never.
 *
 * @module
 */

/** Begins every script on an entry: `now`, `µs`, and `s`, as Lua itself prints no more than 14 digits of a number. */
export const entryPrelude: string = `
local t = redis.call('TIME')
local us = t[1] * 1000000 + t[2]
local now = math.floor(us / 1000)
local function s(x) return string.format('%.0f', x) end
`.trim();
