/**
 * What changes an entry without a build: set and invalidate.
 *
 * @module
 */
import { newToken } from "../random.ts";
import { commitScript } from "../scripts/commit.ts";
import { electScript } from "../scripts/elect.ts";
import { invalidateScript } from "../scripts/invalidate.ts";
import { prefix } from "./codec.ts";
import { type CacheContext, demand, type Place, report } from "./context.ts";

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
  freshMs: number,
): Promise<boolean> {
  const token = newToken(context.env.random);
  const elected = await demand("set", context, place, electScript, [token, setLeaseMs, prefix, 2]);
  const args = [token, `${elected.reply.attempt}`, prefix, payload, freshMs];
  return (await demand("set", context, place, commitScript, args)).reply.type === "stored";
}

/** Voids what stands and every election: no value built before this is served or stored after it. */
export async function voidEntry(context: CacheContext, place: Place): Promise<void> {
  const startedAt = context.env.clock.now();
  const answer = await demand("invalidate", context, place, invalidateScript, []);
  report(context, answer.reply, { wanted: place, startedAt, requests: answer.requests }, answer);
}
