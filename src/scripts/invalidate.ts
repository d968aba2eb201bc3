import type { Script } from "../script.ts";
import { entryPrelude } from "./entry.ts";
import { integers } from "./integers.ts";

/** The fence of the invalidation: no value elected before it is stored after it. */
export interface InvalidateReply {
  readonly type: "invalidated";
  readonly fence: number;
}

/**
 * INVALIDATE: drops the value and voids the election and the back-off.
 *
 * KEYS entry
 *
 * Replies the fence.
 *
 * The deletion comes first and is enough for safety, so that a server that is out of memory invalidates too: what is
 * written after it names the reason to a builder that comes too late, and keeps the duration that waiters go by.
 */
export const invalidateScript: Script<InvalidateReply> = {
  source: `${entryPrelude}
local d = s(n('d'))
redis.call('DEL', KEYS[1])
h = {}
pcall(w, 'lf', f, 'fl', f, 'd', d)
return tonumber(f)`,
  decode(reply) {
    const fence = integers([reply], 1)?.[0];
    return fence === undefined || fence <= 0 ? undefined : { type: "invalidated", fence };
  },
};
