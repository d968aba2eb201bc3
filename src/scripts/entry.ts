/**
 * The entry of a cache: one hash, so that value, election and fence live, move and die together.
 *
 *   p, f          payload behind its codec's prefix, its fence
 *   fu, xu        fresh until, of use until: in between it is old, and each read says how old it may be
 *   t, ls, lu     election: its token, its start (0 for `set`), the end of its lease
 *   lf, fl        fence that was given last, fence of the last invalidation
 *   d             how long a build usually takes
 *   e, bu         failures in a row, back-off until
 *
 * Instants and durations are in ms by the server's clock, read once a script: no client's clock is ever compared with
 * it. A fence is that clock in µs, or one more than the last: it grows even where the key was lost. A field that is
 * absent or 0 counts as never: an election stands while its `lu`, past or not, is there.
 *
 * @module
 */

/**
 * Begins every script on an entry. `n` reads a field as a number; `s` writes one, as Lua itself prints 14 digits at
 * most; `w` writes fields, and lets the key live a minute longer than anything in it; `r` makes the reply; `known` is
 * the payload if it is of use and of this codec; `f` is the next fence; `mine` whether the election of the token and
 * fence in ARGV stands: a late copy can win again with the same token.
 */
export const entryPrelude: string = `
local t, h = redis.call('TIME'), {}
local us = t[1] * 1000000 + t[2]
local now = math.floor(us / 1000)
local function put(list) for i = 1, #list, 2 do h[list[i]] = list[i + 1] end end
put(redis.call('HGETALL', KEYS[1]))
local function n(field) return tonumber(h[field]) or 0 end
local function s(x) return ('%.0f'):format(x) end
local function w(...)
  put({ ... })
  redis.call('HSET', KEYS[1], ...)
  redis.call('PEXPIREAT', KEYS[1], s(math.max(now, n('xu'), n('lu'), n('bu')) + 60000))
end
local function known() return now < n('xu') and (h.p or ''):sub(1, #ARGV[3]) == ARGV[3] and h.p end
local function r(word, ms, p)
  return { word, p or false, n('lf'), n('f'), ms, now - n('fu'), now - n('ls'), n('d') }
end
local f = s(math.max(us, n('lf') + 1))
local mine = h.t == ARGV[1] and h.lf == ARGV[2] and n('lu') > 0
`;
