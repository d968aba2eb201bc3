import type { Script } from "../script.ts";
import { entryPrelude } from "./entry.ts";
import { integers } from "./integers.ts";

/** Whether this election was given back, or was over already; and for how long nobody is elected now. */
export interface FailReply {
  readonly type: "released" | "over";
  readonly backOffMs?: number;
}

/**
 * FAIL: gives an election back. After a failed build nobody is elected for a second, twice as long with each failure in
 * a row and 30 s at most; the value that stands is not touched.
 *
 * KEYS entry
 * ARGV token, fence, 1 where the build failed, 0 where it was only given up: then there is no back-off
 *
 * Replies { 1, back-off ms }, { 0, 0 } where this election does not stand any more.
 *
 * Deletes before it writes: a server that is out of memory must not keep an election that is over.
 */
export const failScript: Script<FailReply> = {
  source: `${entryPrelude}
if not mine then return { 0, 0 } end
redis.call('HDEL', KEYS[1], 'lu')
h.lu = nil
if ARGV[3] == '0' then return { 1, 0 } end
local wait = math.min(30000, 1000 * 2 ^ n('e'))
w('e', s(n('e') + 1), 'bu', s(now + wait))
return { 1, wait }`,
  decode(reply) {
    const [verdict, backOffMs] = integers(reply, 2) ?? [];
    if (verdict === 1 && backOffMs !== undefined) return { type: "released", backOffMs };
    return verdict === 0 ? { type: "over" } : undefined;
  },
};
