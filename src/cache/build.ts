/**
 * Has an entry built for a flight, and stored if it may be.
 *
 * @module
 */
import { untilAborted } from "../command.ts";
import { notify } from "../events.ts";
import type { Answer } from "../node.ts";
import { commitScript } from "../scripts/commit.ts";
import type { ElectReply } from "../scripts/elect.ts";
import { failScript } from "../scripts/fail.ts";
import { fromPayload, toPayload } from "./codec.ts";
import { noAnswer } from "./context.ts";
import type { Flight } from "./flight.ts";
import { failedError, type Given, type Reader } from "./reader.ts";

/** After a failed build nobody is elected for this long, doubling with each failure in a row. */
const firstBackOffMs = 1_000;
const longestBackOffMs = 30_000;

/** The token and the fence of an election: only both together may store, fail or renew. */
type Election = readonly [token: string, fence: string];

/**
 * Builds under an election that this flight has won.
 *
 * 1. Stored: for all who sat down before the commit was sent.
 * 2. Refused, as another was elected or the entry was invalidated: the builder's own caller gets the newer value that
 *    came with the refusal, else its own. The others share the newer one, or read again.
 * 3. Unknown whether stored: its own caller has its value, and so have those who sat down before the build began, as
 *    theirs would be no newer.
 * 4. Failed: the election is given back with a back-off; without one where it gave what cannot be stored, or where
 *    nobody waits for it any more.
 */
export async function rebuild(
  flight: Flight,
  asker: Reader,
  answer: Answer<ElectReply>,
  { attempt: fence, payload: previous }: ElectReply,
): Promise<void> {
  const election: Election = [flight.token, String(fence)];
  const [builder] = flight.readers;
  if (builder === undefined) return giveBack(flight, asker, election);
  notify(flight.context.observe, { type: "elected", fence, ...builder.happened(answer) });
  const began = flight.startBuild(builder);
  const built = await runBuild(flight, builder, fence, previous);
  if ("payload" in built) return commit(flight, builder, election, { payload: built.payload, fence, began });
  if ("cause" in built) return fail(flight, builder, election, { cause: built.cause, began });
  await giveBack(flight, builder, election);
  if (built.error !== undefined) flight.refuse([builder], built.error);
}

/**
 * Builds where Redis gave no definite answer, for those who wish so; the others are refused. One build at a time for an
 * entry and a process: who sat down before it began shares it, later ones ask Redis again.
 */
export async function buildWithoutRedis(flight: Flight, answer: Answer<ElectReply>): Promise<void> {
  const { observe } = flight.context;
  const error = noAnswer("get", flight.place, answer);
  const builds = ({ wanted }: Reader): boolean => error.code !== "config" && wanted.onRedisDown === "build";
  const refused = flight.readers.filter((reader) => !builds(reader));
  flight.refuse(refused, error);
  const [builder] = flight.readers;
  if (builder === undefined) return;
  const began = flight.startBuild(builder);
  const built = await runBuild(flight, builder, 0, undefined);
  if ("payload" in built) {
    notify(observe, { type: "built", fence: 0, stored: false, ...builder.happened(answer) });
    land(flight, builder, began, { payload: built.payload, fence: 0, stored: false });
  } else if ("cause" in built) {
    notify(observe, { type: "build-failed", retryAfterMs: 0, ...builder.happened(answer) });
    crash(flight, builder, began, built.cause, undefined);
  } else if (built.error !== undefined) {
    flight.refuse([builder], built.error);
  }
}

interface Result {
  readonly payload: string;
  readonly fence: number;
  readonly began: number;
}

async function commit(
  flight: Flight,
  builder: Reader,
  election: Election,
  { payload, fence, began }: Result,
): Promise<void> {
  const { observe, codec } = flight.context;
  const args = [...election, codec.prefix, payload, builder.wanted.freshMs, 0, 0];
  const { answer, question } = await flight.ask(builder, commitScript, args);
  const reply = answer.kind === "reply" ? answer.reply : undefined;
  const stored = reply?.type === "stored";
  // Redis has said that it stores nothing, so nobody else needs to wait for this election.
  if (answer.kind === "no-vote" && !answer.final) await giveBack(flight, builder, election);
  if (reply !== undefined && !stored) {
    notify(observe, { type: "commit-refused", fence, reason: reply.type, ...builder.happened(answer) });
  }
  notify(observe, { type: "built", fence, stored, ...builder.happened(answer) });
  const own = { payload, fence, stored };
  if (reply === undefined) return land(flight, builder, began, own);
  if (reply.type === "stored") return land(flight, builder, question, own);
  if (reply.newer === undefined) return flight.give([builder], { ...own, status: "built" });
  flight.give([builder, ...flight.eligible(question)], { ...reply.newer, status: "waited", stored: true });
}

async function fail(
  flight: Flight,
  builder: Reader,
  election: Election,
  { cause, began }: { readonly cause: unknown; readonly began: number },
): Promise<void> {
  const args = [...election, firstBackOffMs, longestBackOffMs];
  const { answer, question } = await flight.ask(builder, failScript, args, false);
  const released = answer.kind === "reply" && answer.reply.type === "released" ? answer.reply : undefined;
  const retryAfterMs = released?.backOffMs;
  const event = { type: "build-failed", retryAfterMs: retryAfterMs ?? 0 } as const;
  notify(flight.context.observe, { ...event, ...builder.happened(answer) });
  crash(flight, builder, released === undefined ? began : question, cause, retryAfterMs);
}

/** Lets others be elected at once. A lost request costs them one lease of waiting, so it is not sent twice. */
async function giveBack(flight: Flight, reader: Reader, election: Election): Promise<void> {
  await flight.ask(reader, failScript, [...election, 0, 0], false);
}

/** Gives a value to its builder, and to all who may take the outcome of a question. */
function land(flight: Flight, builder: Reader, question: number, given: Omit<Given, "status">): void {
  flight.give([builder], { ...given, status: "built" });
  flight.give(flight.eligible(question), { ...given, status: "waited" });
}

/** Tells a failure to its builder, with its cause, and to all who may take the outcome of a question, without. */
function crash(
  flight: Flight,
  builder: Reader,
  question: number,
  cause: unknown,
  retryAfterMs: number | undefined,
): void {
  const { name } = flight.place;
  flight.refuse([builder], failedError(name, { cause, retryAfterMs }));
  flight.refuse(flight.eligible(question), failedError(name, { retryAfterMs }));
}

/** A payload; the cause of a failed build; the error of a value that cannot be stored, or none where all have left. */
type Built = { readonly payload: string } | { readonly cause: unknown } | { readonly error: unknown };

async function runBuild(
  { context, deserted }: Flight,
  { wanted }: Reader,
  fence: number,
  previous: string | undefined,
): Promise<Built> {
  const { codec } = context;
  const { name } = wanted;
  let value: unknown;
  try {
    const stale = previous === undefined ? undefined : fromPayload(codec, name, previous);
    const running = (async () => wanted.build({ signal: deserted, fence, stale }))();
    value = await untilAborted(running, deserted);
  } catch (cause) {
    return deserted.aborted ? { error: undefined } : { cause };
  }
  try {
    return { payload: toPayload(codec, name, value) };
  } catch (error) {
    return { error };
  }
}
