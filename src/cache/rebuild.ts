/**
 * Has an entry built for a flight, stored if it may be, and the outcome told to all who may take it.
 *
 * @module
 */
import { failure, type LockErrorDetails } from "../errors.ts";
import { tooFewAnswers } from "../node.ts";
import { commitScript } from "../scripts/commit.ts";
import type { ElectReply } from "../scripts/elect.ts";
import { tendScript } from "../scripts/tend.ts";
import { type Ask, runBuild } from "./build.ts";
import { isTooLong } from "./codec.ts";
import { type EventBody, notifyOf } from "./context.ts";
import { type Asked, type Flight, serve } from "./flight.ts";
import type { Reader, Told } from "./reader.ts";

/**
 * Builds under an election that this flight has won, or without one where Redis gave no definite answer.
 *
 * Whoever takes the old value has it at once; the builder's own caller only where `waitUntil` keeps the build alive.
 *
 * 1. Stored: the value is for all who sat down before the commit was sent.
 * 2. Refused: the builder's own caller gets the newer value that came with the refusal, else its own. The others share
 *    the newer one, or look again.
 * 3. Unknown whether stored, too large, or without Redis: its own caller has its value, and so have those who sat down
 *    before the build began, as theirs would be no newer.
 * 4. Failed: whoever takes an old value has it. The others are refused, with the build's own error as the cause. Where
 *    the back-off did not begin, those who sat down after the build began look again.
 * 5. Given up, as nobody waits for it or its election is lost: those who wait look again.
 */
export async function rebuild(flight: Flight, asker: Reader, elected: Asked<ElectReply>): Promise<void> {
  const { context } = flight;
  const { prefix } = context;
  const { reply: won } = elected;
  if (!won) refuse(flight, asker, elected);
  const [builder = asker] = flight.readers;
  const fence = won?.attempt ?? 0;
  const notify = (event: EventBody, asked: Asked = elected): void => notifyOf(context, event, builder, asked);
  const ask: Ask = async (script, ...args) =>
    won && flight.ask(builder, script, [flight.token, fence, prefix, ...args]);

  if (won) notify({ type: "elected", fence });
  if (won?.payload) flight.isKept = !!builder.waitUntil;
  serve(flight, elected, false, flight.isKept ? undefined : builder);
  flight.waitFor(builder); // gives up where nobody is left
  const early = [...flight.readers];
  const { payload, lives, hasFailed, cause } = await runBuild(flight, builder, elected, ask);

  const fits = payload && !isTooLong(context, payload);
  const asked = fits ? await ask(commitScript, payload, ...lives) : await ask(tendScript, hasFailed ? -1 : 0);
  const reply = payload && !fits ? undefined : asked?.reply;
  const stands = reply?.type === "stored" || reply?.type === "failed";
  const retryAfterMs = reply?.leftMs;
  if (payload) {
    // Redis has said that it stores nothing, so nobody else needs to wait for this election.
    if (asked?.kind === "no-vote" && !asked.final) await ask(tendScript, 0);
    if (reply && !stands) notify({ type: "commit-refused", fence, reason: reply.type }, asked);
    notify({ type: "built", fence, stored: stands }, asked);
  } else if (hasFailed) notify({ type: "build-failed", fence, retryAfterMs: retryAfterMs ?? 0 }, asked);
  else return;

  if (asked && reply) serve(flight, asked, !payload);
  else if (!payload) serve(flight, elected, true);
  const told = (status: "built" | "waited"): Told =>
    payload ? { payload, status, fence, stored: stands } : failed(builder, { cause, retryAfterMs });
  flight.tell([builder], told("built"));
  flight.tell(asked && stands ? asked.readers() : reply && payload ? [] : early, told("waited"));
}

/** That the build failed; with its error as the cause where it ran in this process. */
export function failed({ name }: Reader, details: LockErrorDetails): Told {
  return { error: failure("build-failed", "get", name, "its build failed", details) };
}

/** Refuses those who do not build without Redis. */
function refuse(flight: Flight, { name }: Reader, elected: Asked<ElectReply>): void {
  const error = tooFewAnswers("get", name, [elected]);
  const refused = [...flight.readers].filter(({ onRedisDown }) => error.code === "config" || onRedisDown === "throw");
  flight.tell(refused, { error });
}
