import type { Script } from "../script.ts";
import { verdict } from "./integers.ts";

/** What a fenced write came to. */
export interface FencedSetReply {
  /** "stale": a newer fence has written. */
  readonly type: "stale" | "written";
}

/**
 * FENCED SET: writes a string unless a newer fence has written before. The same fence may write again, as one holder
 * writes many times.
 *
 * KEYS value, fence of the value
 * ARGV fence, value, life of the value in ms ('0': no end)
 *
 * Replies: 1 written, 0 stale: then nothing has changed.
 *
 * The fence is written first: Lua has no roll-back, and a fence without its value is harmless. It outlives the value, by
 * 7 days at least, and longer where it runs ahead of the clock.
 */
export const fencedSetScript: Script<FencedSetReply> = {
  source: `
local f = tonumber(ARGV[1])
if f < (tonumber(redis.call('GET', KEYS[2]) or '') or 0) then return 0 end
local t = redis.call('TIME')
local ahead = math.max(0, math.ceil((f - t[1] * 1000000 - t[2]) / 1000))
redis.call('SET', KEYS[2], ARGV[1], 'PX', string.format('%.0f', math.max(604800000, tonumber(ARGV[3])) + ahead))
if ARGV[3] == '0' then redis.call('SET', KEYS[1], ARGV[2]) else redis.call('SET', KEYS[1], ARGV[2], 'PX', ARGV[3]) end
return 1
`.trim(),
  decode(reply) {
    const [type] = verdict([reply], 1, ["stale", "written"] as const);
    return type && { type };
  },
};
