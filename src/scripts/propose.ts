import type { Script } from "../script.ts";
import { type AcquireReply, acquireScript, chooseFence, decodeAcquire } from "./acquire.ts";

/**
 * PROPOSE: as ACQUIRE, under a fence that the client proposes, so that independent nodes can grant the same one.
 *
 * KEYS lock, fence, tombstone of the token
 * ARGV token, lease in ms, proposed fence, and where there is a quarantine the least uptime in ms of a node that grants
 *
 * Replies as ACQUIRE does, and:
 *   { -3, counter, 0 }          the proposed fence is not above the counter
 *   { -4, server µs, 0 }        the proposed fence is more than a day ahead of the server's clock
 *   { -5, 0, ms left }          the server was started so lately that it may have forgotten a lease that still lasts
 *
 * Without a counter, and with a quarantine in any case, a proposal that is older than a lease (a day at most) is too low:
 * a node that forgot its data, or came back with an old copy of it, may have granted a higher one.
 */
export const proposeScript: Script<AcquireReply> = {
  source: acquireScript.source.replace(
    chooseFence,
    `
if ARGV[4] then
  local up = string.match(redis.call('INFO', 'server'), 'uptime_in_seconds:(%d+)')
  local left = ARGV[4] - 1000 * up
  if left > 0 then return { -5, 0, left } end
end
local f = tonumber(ARGV[3])
if f > now + 86400000000 then return { -4, now, 0 } end
if ARGV[4] or c == 0 then c = math.max(c, now - 1000 * math.min(tonumber(ARGV[2]), 86400000)) end
if f <= c then return { -3, c, 0 } end
`.trim(),
  ),
  decode: (reply) =>
    decodeAcquire(reply, [
      "quarantined",
      "fence-in-future",
      "fence-too-low",
      undefined,
      "cancelled",
      "held",
      "granted",
    ]),
};
