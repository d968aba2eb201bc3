/**
 * Runs one build, keeps its election alive, and makes a payload of its value.
 *
 * @module
 */
import { untilAborted } from "../command.ts";
import { failure } from "../errors.ts";
import type { ElectReply } from "../scripts/elect.ts";
import { renewScript } from "../scripts/renew.ts";
import { fromPayload, toPayload } from "./codec.ts";
import { askEntry } from "./context.ts";
import type { Asked, Flight } from "./flight.ts";
import type { Reader } from "./reader.ts";

/** What came of a build: one of these. */
export interface Built {
  readonly payload?: string;
  /** Of a failure. */
  readonly cause?: unknown;
  /** Of a value that cannot be stored. */
  readonly error?: unknown;
}

/**
 * Runs the build of a reader. Never rejects; resolves with undefined when nobody waits for it any more, or when it has
 * been overtaken. Then its signal has aborted, and it may still run.
 *
 * 1. It is renewed whenever 60 % of its lease have passed, so that a normal build costs no renewal, and sooner after an
 *    unknown outcome. When another was elected or the entry invalidated, it has been overtaken.
 * 2. At `maxHoldMs` it has failed, so that a build that hangs does not block the others for ever.
 */
export async function runBuild(
  { context, deserted, token }: Flight,
  builder: Reader,
  { reply: won }: Asked<ElectReply>,
): Promise<Built | undefined> {
  const { clock } = context.env;
  const { name, leaseMs, maxHoldMs, build } = builder.wanted;
  const fence = won?.attempt ?? 0;
  const stop = new AbortController();
  const { signal } = stop;
  if (deserted.aborted) return undefined;

  let isVoid = false;
  const drop = (): void => {
    isVoid = true;
    stop.abort();
  };
  deserted.addEventListener("abort", drop);
  const tooLong = `maxHoldMs has passed: current value is ${maxHoldMs}`;
  const cancelHold = clock.after(maxHoldMs, true, () => stop.abort(failure("timeout", "build", name, tooLong)));
  let isOver = false;
  let cancelRenewal = (): void => {};
  const renew = async (): Promise<void> => {
    const answer = await askEntry(context, builder.wanted, renewScript, [token, `${fence}`, leaseMs]);
    builder.requests += answer.requests;
    if (isOver) return;
    if (answer.kind !== "reply") renewIn(0.1);
    else if (answer.reply.type === "renewed") renewIn(0.6);
    else drop();
  };
  const renewIn = (part: number): void => {
    cancelRenewal = clock.after(part * leaseMs, false, () => void renew().catch(() => {}));
  };
  if (won) renewIn(0.6);

  let value: unknown;
  try {
    const stale = won?.payload && fromPayload(won.payload);
    value = await untilAborted((async () => build({ signal, fence, stale }))(), signal);
  } catch (cause) {
    return isVoid ? undefined : { cause };
  } finally {
    isOver = true;
    cancelHold();
    cancelRenewal();
  }
  try {
    return { payload: toPayload(name, value) };
  } catch (error) {
    return { error };
  }
}
