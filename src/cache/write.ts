/**
 * What changes an entry without a build: set and invalidate.
 *
 * @module
 */
import { notify } from "../events.ts";
import { type Answer, reportOf } from "../node.ts";
import { newToken } from "../random.ts";
import type { Verdict } from "../script.ts";
import { commitScript } from "../scripts/commit.ts";
import { electScript } from "../scripts/elect.ts";
import { invalidateScript } from "../scripts/invalidate.ts";
import { askEntry, type CacheContext, noAnswer, type Place } from "./context.ts";
import type { Windows } from "./options.ts";

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
  { freshMs, staleMs, errorMs }: Windows,
): Promise<boolean> {
  const { codec, env } = context;
  const token = newToken(env.random);
  const elected = reply(
    "set",
    place,
    await askEntry(context, place, electScript, [token, setLeaseMs, codec.prefix, 2]),
  );
  const args = [token, String(elected.attempt), codec.prefix, payload, freshMs, staleMs, errorMs];
  return reply("set", place, await askEntry(context, place, commitScript, args)).type === "stored";
}

/**
 * Voids every election, and what stands: no value built before this is stored after it, nor, if it is hard, served.
 */
export async function voidEntry(context: CacheContext, place: Place, soft: boolean): Promise<void> {
  const { clock } = context.env;
  const startedAt = clock.now().monotonic;
  const answer = await askEntry(context, place, invalidateScript, [soft ? 0 : 1]);
  const { fence } = reply("invalidate", place, answer);
  notify(context.observe, {
    type: "invalidated",
    name: place.name,
    fence,
    durationMs: clock.now().monotonic - startedAt,
    requests: answer.requests,
    nodes: [reportOf(answer)],
  });
}

function reply<Result extends Verdict>(action: string, place: Place, answer: Answer<Result>): Result {
  if (answer.kind !== "reply") throw noAnswer(action, place, answer);
  return answer.reply;
}
