/**
 * What changes an entry without a build: set and invalidate.
 *
 * @module
 */
import { newToken } from "../random.ts";
import { commitScript } from "../scripts/commit.ts";
import { electScript } from "../scripts/elect.ts";
import { invalidateScript } from "../scripts/invalidate.ts";
import { commitArgs, prefix } from "./codec.ts";
import { type CacheContext, demand, type Place, report } from "./context.ts";
import type { Windows } from "./reader.ts";

/** How long others wait for the second request of a `set` that never comes. */
const setLeaseMs = 10_000;

/**
 * Stores a value: an election that is always won, so that no build under way can store what is older, and its commit.
 * Two requests, so that a late copy of the first does not bring the value back after an invalidation.
 *
 * @returns false when somebody was elected or invalidated in between
 */
export async function storeValue(
  context: CacheContext,
  place: Place,
  payload: string,
  windows: Windows,
): Promise<boolean> {
  const token = newToken(context.env.random);
  const elected = await demand("set", context, place, electScript, [token, setLeaseMs, prefix, 2]);
  const args = [token, `${elected.reply.attempt}`, ...commitArgs(payload, windows)];
  return (await demand("set", context, place, commitScript, args)).reply.type === "stored";
}

/**
 * Voids every election, and what stands: no value built before this is stored after it, nor, if it is hard, served.
 */
export async function voidEntry(context: CacheContext, place: Place, soft: boolean): Promise<void> {
  const startedAt = context.env.clock.now();
  const answer = await demand("invalidate", context, place, invalidateScript, [soft ? 0 : 1]);
  report(context, answer.reply, { wanted: place, startedAt, requests: answer.requests }, answer);
}
