import type { Script } from "../script.ts";
import { entryPrelude } from "./entry.ts";
import { integers } from "./integers.ts";

/** The fence of the invalidation: no value elected before it is stored after it. */
export interface InvalidateReply {
  readonly type: "invalidated";
  readonly fence: number;
}

/**
 * INVALIDATE: voids the election and the back-off. Hard: the value is gone. Soft: it is fresh no longer, and may be
 * served within the stale and rescue windows it was stored with.
 *
 * KEYS entry
 * ARGV mode: 1 hard, 0 soft
 *
 * Replies the fence.
 *
 * The deletion comes first and is enough for safety, so that a server that is out of memory invalidates too: what is
 * written after it names the reason to a builder that comes too late, and keeps the duration that waiters go by.
 */
export const invalidateScript: Script<InvalidateReply> = {
  name: "invalidate",
  source: `${entryPrelude}
local d = s(n('d'))
if ARGV[1] == '1' then
  redis.call('DEL', KEYS[1])
  h = {}
else
  redis.call('HDEL', KEYS[1], 'fu', 'lu', 'e', 'bu')
  h.fu, h.lu, h.bu = nil
end
pcall(w, 'lf', f, 'fl', f, 'd', d)
return tonumber(f)`,
  decode(reply) {
    const fence = integers([reply], 1)?.[0];
    return fence === undefined || fence <= 0 ? undefined : { type: "invalidated", fence };
  },
};
