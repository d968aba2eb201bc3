/**
 * Has an entry built for a flight, stored if it may be, and the outcome told to all who may take it.
 *
 * @module
 */
import { failure, type LockErrorDetails } from "../errors.ts";
import { tooFewAnswers } from "../node.ts";
import type { Script, Verdict } from "../script.ts";
import { commitScript } from "../scripts/commit.ts";
import type { ElectReply } from "../scripts/elect.ts";
import { failScript } from "../scripts/fail.ts";
import { runBuild } from "./build.ts";
import { prefix } from "./codec.ts";
import { type EventBody, report } from "./context.ts";
import type { Asked, Flight } from "./flight.ts";
import type { Reader, Told } from "./reader.ts";

/**
 * Builds under an election that this flight has won, or without one where Redis gave no definite answer: for those who
 * wish so, one build at a time for an entry and a process.
 *
 * 1. Stored: the value is for all who sat down before the commit was sent.
 * 2. Refused: the builder's own caller gets the newer value that came with the refusal, else its own. The others share
 *    the newer one, or look again.
 * 3. Unknown whether stored, or without Redis: its own caller has its value, and so have those who sat down before the
 *    build began, as theirs would be no newer.
 * 4. Failed: its own caller gets the cause, the others that it failed. Where the back-off did not begin, those who sat
 *    down after the build began look again.
 */
export async function rebuild(flight: Flight, asker: Reader, elected: Asked<ElectReply>): Promise<void> {
  const { reply: won } = elected;
  if (won === undefined && !mayBuild(flight, asker, elected)) return;
  const [builder = asker] = flight.readers();
  const { wanted } = builder;
  const fence = won?.attempt ?? 0;
  const say = (event: EventBody, { answer }: Asked<Verdict> = elected): void =>
    report(flight.context, event, builder, answer);
  const ask = async <Result extends Verdict>(script: Script<Result>, ...args: (string | number)[]) =>
    won && flight.ask(builder, script, [flight.token, `${fence}`, ...args]);

  if (won) say({ type: "elected", fence });
  const began = flight.startBuild(builder);
  const built = await runBuild(flight, builder, fence);

  if (built.payload !== undefined) {
    const asked = await ask(commitScript, prefix, built.payload, wanted.freshMs);
    const reply = asked?.reply;
    const newer = reply?.newer;
    const stored = reply?.type === "stored";
    // Redis has said that it stores nothing, so nobody else needs to wait for this election.
    if (asked?.answer.kind === "no-vote" && !asked.answer.final) await ask(failScript, 0);
    if (reply && !stored) say({ type: "commit-refused", fence, reason: reply.type }, asked);
    say({ type: "built", fence, stored }, asked);
    const given = newer ? { ...newer, stored: true } : { payload: built.payload, fence, stored };
    flight.tell([builder], { ...given, status: newer ? "waited" : "built" });
    const basis = asked && reply ? (stored || newer ? asked.question : 0) : began;
    return flight.tell(flight.readers(basis), { ...given, status: "waited" });
  }
  const isFailure = "cause" in built;
  const asked = await ask(failScript, Number(isFailure));
  if (!isFailure) return flight.tell([builder], { error: built.error });
  const retryAfterMs = asked?.reply?.backOffMs;
  say({ type: "build-failed", retryAfterMs: retryAfterMs ?? 0 }, asked);
  flight.tell([builder], failed(builder, { cause: built.cause, retryAfterMs }));
  flight.tell(flight.readers(asked && retryAfterMs ? asked.question : began), failed(builder, { retryAfterMs }));
}

/** That the build failed: for its own caller with the cause. */
export function failed({ wanted: { name } }: Reader, details: LockErrorDetails): Told {
  return { error: failure("build-failed", "get", name, "its build failed", details) };
}

/** Refuses those who do not build without Redis. @returns whether anybody is left */
function mayBuild(flight: Flight, { wanted }: Reader, { answer }: Asked<ElectReply>): boolean {
  const error = tooFewAnswers("get", wanted.name, [answer]);
  const refused = flight.readers().filter((reader) => error.code === "config" || reader.wanted.onRedisDown === "throw");
  flight.tell(refused, { error });
  return flight.readers().length > 0;
}
