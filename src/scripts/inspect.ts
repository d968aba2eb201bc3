import type { Script } from "../script.ts";
import { integers } from "./integers.ts";

/** What stands under a lock's keys. */
export interface InspectReply {
  /** Absent where the lock is free, or where a key of another type stands in its place. */
  readonly token?: string;
  /** "foreign": a key of another type, which the lock treats as held. */
  readonly type: "held" | "free" | "foreign";
  /** The highest fence granted, 0 where none is known. */
  readonly counter: number;
  /** -1 where the key has no expiry; absent where the lock is free. */
  readonly remainingMs?: number;
}

/**
 * INSPECT: reads a lock and changes nothing. A plain EVAL, since a replica may serve EVAL_RO and show the past; and a
 * write of nothing first, which a read-only replica refuses even where it is what the client leads to.
 *
 * KEYS lock, fence
 *
 * Replies { value, counter, remaining ms }: the value behind a 'v', so that no client's parser can change it, or 'n'
 * where there is no string; remaining is -1 without an expiry and -2 without a key. A replica replies READONLY; whatever
 * else refuses writes, such as full memory, is no reason not to tell who holds.
 */
export const inspectScript: Script<InspectReply> = {
  source: `
local w = redis.pcall('SETRANGE', KEYS[1], 0, '')
if type(w) == 'table' and string.find(w.err or '', 'READONLY') then return w end
local m = redis.call('MGET', KEYS[1], KEYS[2])
return { m[1] and 'v' .. m[1] or 'n', tonumber(m[2] or '') or 0, redis.call('PTTL', KEYS[1]) }
`.trim(),
  decode(reply) {
    if (!Array.isArray(reply)) return undefined;
    const [value, ...rest] = reply;
    const [counter, remainingMs] = integers(rest, 2) ?? [];
    if (typeof value !== "string" || counter === undefined || remainingMs === undefined) return undefined;
    if (value.startsWith("v")) return { type: "held", token: value.slice(1), counter, remainingMs };
    if (value !== "n") return undefined;
    return remainingMs === -2 ? { type: "free", counter } : { type: "foreign", counter, remainingMs };
  },
};
