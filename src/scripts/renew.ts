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
if not mine then return 0 end
w('lu', s(math.max(n('lu'), now + ARGV[3])))
return 1`,
  decode(reply) {
    const code = integers([reply], 1)?.[0];
    return code === 1 ? { type: "renewed" } : code === 0 ? { type: "over" } : undefined;
  },
};
