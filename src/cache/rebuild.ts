/**
 * Has an entry built for a flight, stored if it may be, and the outcome told to all who may take it.
 *
 * @module
 */
import { failure, type LockError, type LockErrorDetails } from "../errors.ts";
import type { Answer } from "../node.ts";
import { commitScript } from "../scripts/commit.ts";
import type { ElectReply } from "../scripts/elect.ts";
import { failScript } from "../scripts/fail.ts";
import { type Attempt, runBuild } from "./build.ts";
import { noAnswer } from "./context.ts";
import type { Asked, Flight } from "./flight.ts";
import type { Given, Reader } from "./reader.ts";

/** After a failed build nobody is elected for this long, doubling with each failure in a row. */
const firstBackOffMs = 1_000;
const longestBackOffMs = 30_000;

/**
 * Builds under an election that this flight has won, or without one where Redis gave no definite answer: for those who
 * wish so, one build at a time for an entry and a process.
 *
 * Where an old value may be served meanwhile, later readers do not join: they look for themselves, and find it.
 *
 * @returns whether those who wait must look again, as the election was lost before the build gave anything
 */
export async function rebuild(flight: Flight, asker: Reader, elected: Asked<ElectReply>): Promise<boolean> {
  const { answer } = elected;
  const won = answer.kind === "reply" ? answer.reply : undefined;
  if (won === undefined) refuseWithoutRedis(flight, asker, answer);
  const [builder = asker] = flight.readers();
  const fence = won?.attempt ?? 0;
  const attempt: Attempt = { flight, builder, elected, fence, election: [flight.token, String(fence)] };
  if (won !== undefined) flight.notify({ type: "elected", fence }, builder, answer);
  if (won?.age === "stale" && builder.wanted.staleMs > 0) flight.detach();
  const others = flight.readers().filter((reader) => reader !== builder);
  flight.serveOld(elected, false, others);

  const began = flight.startBuild(builder);
  const built = await runBuild(attempt);
  if (built.type === "payload") await store(attempt, built.payload, began);
  else if (built.type === "failed") await fail(attempt, built.error, began);
  else if (built.type !== "lost") await giveBack(attempt);
  if (built.type === "refused") flight.tell([builder], built);
  return built.type === "lost";
}

/** The build failed, for this reader (then there is a cause) or for one before it. */
export function failedError({ wanted: { name } }: Reader, details: LockErrorDetails): LockError {
  const reason = "cause" in details ? "its build failed" : "its build failed a moment ago, for another";
  return failure("build-failed", "get", name, reason, details);
}

function refuseWithoutRedis(flight: Flight, { wanted }: Reader, answer: Answer<ElectReply>): void {
  const error = noAnswer("get", wanted, answer);
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
async function store(attempt: Attempt, payload: string, began: number): Promise<void> {
  const { flight, builder, elected, election, fence } = attempt;
  const { freshMs, staleMs, errorMs } = builder.wanted;
  const args = [...election, flight.context.codec.prefix, payload, freshMs, staleMs, errorMs];
  const asked = fence > 0 ? await flight.ask(builder, commitScript, args) : undefined;
  const answer = asked?.answer ?? elected.answer;
  const reply = asked?.answer.kind === "reply" ? asked.answer.reply : undefined;
  const stored = reply?.type === "stored";
  // Redis has said that it stores nothing, so nobody else needs to wait for this election.
  if (asked?.answer.kind === "no-vote" && !asked.answer.final) await giveBack(attempt);
  if (reply && !stored) flight.notify({ type: "commit-refused", fence, reason: reply.type }, builder, answer);
  flight.notify({ type: "built", fence, stored }, builder, answer);

  const own: Given = { payload, status: "built", fence, stored };
  const given: Given = reply?.newer ? { ...reply.newer, status: "waited", stored: true } : own;
  const basis = asked === undefined || reply === undefined ? began : stored || reply.newer ? asked.question : 0;
  flight.tell([builder], given);
  flight.tell(flight.readers(basis), { ...given, status: "waited" });
}

/**
 * Who takes the old value gets it. Else the builder's own caller gets the cause, and the others that it failed; those
 * who would take the old value but came too late for it look again.
 */
async function fail(
  { flight, builder, elected, election, fence }: Attempt,
  cause: unknown,
  began: number,
): Promise<void> {
  const args = [...election, firstBackOffMs, longestBackOffMs];
  const asked = fence > 0 ? await flight.ask(builder, failScript, args, false) : undefined;
  const reply = asked?.answer.kind === "reply" ? asked.answer.reply : undefined;
  const retryAfterMs = reply?.backOffMs;
  const event = { type: "build-failed", retryAfterMs: retryAfterMs ?? 0 } as const;
  flight.notify(event, builder, asked?.answer ?? elected.answer);
  flight.serveOld(elected, true);
  flight.tell([builder], { error: failedError(builder, { cause, retryAfterMs }) });
  const hasOld = elected.answer.kind === "reply" && elected.answer.reply.payload !== undefined;
  const others = flight.readers(asked && reply?.type === "released" ? asked.question : began);
  const refused = others.filter(({ wanted }) => !hasOld || wanted.errorMs === 0);
  flight.tell(refused, { error: failedError(builder, { retryAfterMs }) });
}

/** Lets others be elected at once. A lost request costs them one lease of waiting, so it is not sent twice. */
async function giveBack({ flight, builder, election, fence }: Attempt): Promise<void> {
  if (fence > 0) await flight.ask(builder, failScript, [...election, 0, 0], false);
}
