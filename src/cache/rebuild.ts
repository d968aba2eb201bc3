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
import { commitArgs } from "./codec.ts";
import { type Asked, type Flight, serveOld } from "./flight.ts";
import type { Reader, Told } from "./reader.ts";

/** After a failed build nobody is elected for this long, doubling with each failure in a row. */
const firstBackOffMs = 1_000;
const longestBackOffMs = 30_000;

/** One build, under an election or without Redis. */
interface Attempt {
  readonly flight: Flight;
  readonly builder: Reader;
  readonly elected: Asked<ElectReply>;
  readonly fence: number;
  /** The place of the build among the questions. */
  readonly began: number;
  /** Asks with what identifies the election; without Redis nothing is asked. */
  ask<Result extends Verdict>(script: Script<Result>, ...args: (string | number)[]): Promise<Asked<Result> | undefined>;
}

/**
 * Builds under an election that this flight has won, or without one where Redis gave no definite answer: for those who
 * wish so, one build at a time for an entry and a process.
 *
 * Where an old value may be served meanwhile, later readers do not join: they look for themselves, and find it.
 *
 * @returns whether to look again, as the election was lost, or nobody waits any more
 */
export async function rebuild(flight: Flight, asker: Reader, elected: Asked<ElectReply>): Promise<boolean> {
  const { answer, reply: won } = elected;
  if (won === undefined) refuseWithoutRedis(flight, asker, elected);
  const [builder = asker] = flight.readers();
  const { staleMs, waitUntil } = builder.wanted;
  const fence = won?.attempt ?? 0;
  if (won) flight.notify({ type: "elected", fence }, builder, answer);
  if (won?.age === "stale" && staleMs > 0) {
    flight.isKept = waitUntil !== undefined;
    flight.detach();
  }
  serveOld(flight, elected, false, flight.isKept ? undefined : builder);

  const began = flight.startBuild(builder);
  const ask: Attempt["ask"] = async (script, ...args) =>
    won && flight.ask(builder, script, [flight.token, `${fence}`, ...args]);
  const attempt = { flight, builder, elected, fence, began, ask };
  const built = await runBuild(flight, builder, elected);
  if (built?.payload !== undefined) await store(attempt, built.payload);
  else if (built && "cause" in built) await fail(attempt, built.cause);
  else if (built || flight.deserted.aborted) await giveBack(attempt);
  if (built?.error) flight.tell([builder], { error: built.error });
  return built === undefined;
}

/** That the build failed: for its own caller with the cause. */
export function failed({ wanted: { name } }: Reader, details: LockErrorDetails): Told {
  return { error: failure("build-failed", "get", name, "its build failed", details) };
}

function refuseWithoutRedis(flight: Flight, { wanted }: Reader, { answer }: Asked<ElectReply>): void {
  const error = tooFewAnswers("get", wanted.name, [answer]);
  const refused = flight.readers().filter((reader) => error.code === "config" || reader.wanted.onRedisDown === "throw");
  flight.tell(refused, { error });
}

/**
 * 1. Stored: for all who sat down before the commit was sent.
 * 2. Refused: the builder's own caller gets the newer value that came with the refusal, else its own. The others share
 *    the newer one, or read again.
 * 3. Unknown, or without Redis: its own caller has its value, and so have those who sat down before the build began, as
 *    theirs would be no newer.
 */
async function store(attempt: Attempt, payload: string): Promise<void> {
  const { flight, builder, elected, fence, began, ask } = attempt;
  const asked = await ask(commitScript, ...commitArgs(payload, builder.wanted));
  const { answer, question } = asked ?? elected;
  const reply = asked?.reply;
  const stored = reply?.type === "stored";
  // Redis has said that it stores nothing, so nobody else needs to wait for this election.
  if (answer.kind === "no-vote" && !answer.final) await giveBack(attempt);
  if (reply && !stored) flight.notify({ type: "commit-refused", fence, reason: reply.type }, builder, answer);
  flight.notify({ type: "built", fence, stored }, builder, answer);

  const newer = reply?.newer;
  const given = newer ? { ...newer, stored: true } : { payload, fence, stored };
  flight.tell([builder], { ...given, status: newer ? "waited" : "built" });
  flight.tell(flight.readers(reply ? (stored || newer ? question : 0) : began), { ...given, status: "waited" });
}

/**
 * Who takes the old value gets it. Else the builder's own caller gets the cause, and the others that it failed; those
 * who would take the old value but came too late for it look again.
 */
async function fail({ flight, builder, elected, began, ask }: Attempt, cause: unknown): Promise<void> {
  const asked = await ask(failScript, firstBackOffMs, longestBackOffMs);
  const { answer, question } = asked ?? elected;
  const retryAfterMs = asked?.reply?.backOffMs;
  flight.notify({ type: "build-failed", retryAfterMs: retryAfterMs ?? 0 }, builder, answer);
  serveOld(flight, elected, true);
  flight.tell([builder], failed(builder, { cause, retryAfterMs }));
  const others = flight.readers(retryAfterMs ? question : began);
  const refused = others.filter(({ wanted }) => !elected.reply?.payload || wanted.errorMs === 0);
  flight.tell(refused, failed(builder, { retryAfterMs }));
}

/** Lets others be elected at once. */
async function giveBack({ ask }: Attempt): Promise<void> {
  await ask(failScript, 0, 0);
}
