import type { Script } from "../script.ts";
import { entryPrelude } from "./entry.ts";
import { integers } from "./integers.ts";

/** Whether this election still stands. */
export interface RenewReply {
  readonly type: "renewed" | "over";
}

/**
 * RENEW: gives an election that still stands another lease from now. Never shortens it, and never brings one back.
 *
 * KEYS entry
 * ARGV token, fence, lease in ms
 *
 * Replies: 1 renewed, 0 another was elected, or the entry was invalidated or lost.
 */
export const renewScript: Script<RenewReply> = {
  name: "renew",
  source: `${entryPrelude}
if h.t ~= ARGV[1] or h.lf ~= ARGV[2] then return 0 end
local lease = tonumber(ARGV[3])
w(lease + math.max(lease, 60000), 'lu', s(math.max(n('lu'), now + lease)))
return 1`,
  decode(reply) {
    const code = integers([reply], 1)?.[0];
    return code === 1 ? { type: "renewed" } : code === 0 ? { type: "over" } : undefined;
  },
};
