/**
 * Runs the queue's Lua scripts on any client of the package.
 *
 * The rules of all of them: every key is in KEYS and in one slot. Time is the server's. Every reply that is a text begins
 * with a letter, so that no client takes it for JSON. A request may arrive twice, or late, so each script looks at the state
 * that it finds and does nothing the second time.
 *
 * @module
 */
import type { CommandClient, Reply } from "leasehold";

/** A request that was not answered by then has an unknown outcome. Each script may be sent again. */
const timeoutMs = 5_000;

/** Sends one script. Always by EVAL: over HTTP that is one request, never two. */
export function evaluate(
  client: CommandClient,
  source: string,
  keys: readonly string[],
  args: readonly (string | number)[] = [],
): Promise<Reply> {
  const text = client.scriptHeader ? `${client.scriptHeader}\n${source}` : source;
  return client.execute(["EVAL", text, keys.length, ...keys, ...args], { signal: AbortSignal.timeout(timeoutMs) });
}

/** Defines `now`, the server's clock in ms. */
export const readClock: string = `
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
`.trim();
