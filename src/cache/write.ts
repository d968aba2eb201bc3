/**
 * What changes an entry without a build: set and invalidate.
 *
 * @module
 */
import { newToken } from "../random.ts";
import { commitScript } from "../scripts/commit.ts";
import { electScript } from "../scripts/elect.ts";
import { invalidateScript } from "../scripts/invalidate.ts";
import { type CacheContext, type Doing, demand, notifyOf } from "./context.ts";

/**
 * Stores a value: an election that is always won, so that no build under way can store what is older, and its commit.
 * Two requests, so that a late copy of the first does not bring the value back after an invalidation.
 *
 * @param lives how long it is fresh, and of use
 * @returns false when somebody was elected or invalidated in between
 */
export async function storeValue(
  context: CacheContext,
  doing: Doing,
  payload: string,
  lives: readonly number[],
): Promise<boolean> {
  const { env, prefix } = context;
  const token = newToken(env.random);
  // Others wait for so long where the second request is refused or never comes: it may take two tries of 2.5 s.
  const { reply: won } = await demand("set", context, doing, electScript, [token, 5_000, prefix, 2]);
  const answer = await demand("set", context, doing, commitScript, [token, won.attempt, prefix, payload, ...lives]);
  return answer.reply.type === "stored";
}

/** Voids what stands and every election: no value built before this is stored after it, nor served as fresh. */
export async function voidEntry(context: CacheContext, doing: Doing, mode: 0 | 1): Promise<void> {
  const answer = await demand("invalidate", context, doing, invalidateScript, [mode]);
  notifyOf(context, { type: answer.reply.type, fence: answer.reply.attempt }, doing, answer);
}
