/**
 * Runs one build, keeps its election alive, and makes a payload of its value.
 *
 * @module
 */
import { sleep } from "../clock.ts";
import { untilAborted } from "../command.ts";
import { failure, isLockError } from "../errors.ts";
import type { Script } from "../script.ts";
import type { ElectReply } from "../scripts/elect.ts";
import type { EntryReply } from "../scripts/entry-script.ts";
import { tendScript } from "../scripts/tend.ts";
import { fromPayload, toPayload } from "./codec.ts";
import type { Asked, Flight } from "./flight.ts";
import { runNested } from "./nesting.ts";
import { livesOf, type Reader } from "./reader.ts";

/** Asks with what identifies the election; without one asks nothing. */
export type Ask = <Result extends EntryReply>(
  script: Script<Result>,
  ...args: (string | number)[]
) => Promise<Asked<Result> | undefined>;

/** What came of a build: a payload, with how long it is fresh, and of use; or a cause, where it failed; or nothing. */
export type Built =
  | {
      readonly payload: string;
      readonly lives: readonly number[];
      readonly hasFailed?: undefined;
      readonly cause?: undefined;
    }
  | {
      readonly payload?: undefined;
      readonly lives?: undefined;
      readonly hasFailed?: boolean;
      readonly cause?: unknown;
    };

/**
 * Runs the build of a reader until it settles, has failed, or is of no use any more. Never rejects.
 *
 * 1. Its election is renewed whenever 60 % of the lease has passed, so that a normal build costs no renewal, and sooner
 *    after an unknown outcome. When another was elected or the entry invalidated, the election is lost.
 * 2. When it takes too long it has failed, so that a build that hangs does not hold the others up for ever.
 */
export async function runBuild(flight: Flight, builder: Reader, elected: Asked<ElectReply>, ask: Ask): Promise<Built> {
  const { context, signal } = flight;
  const { clock } = context.env;
  const { reply: won } = elected;
  const { name, key, outer, build, leaseMs, freshMs, negativeMs = freshMs, waitUntil } = builder;
  const { maxHoldMs = Math.max(leaseMs, waitUntil ? 25_000 : 60_000), hardTimeoutMs = maxHoldMs } = builder;
  const endMs = Math.min(hardTimeoutMs, maxHoldMs);
  const nesting = { client: context.node.client, key, outer };
  if (signal.aborted) return {};

  const over = new AbortController();
  const later = (ms: number, act: () => unknown): void => {
    sleep(clock, ms, over.signal)
      .then(act)
      .catch(() => {});
  };
  const renewAfter = (part: number): void =>
    later(part * leaseMs, async () => {
      const reply = (await ask(tendScript, leaseMs))?.reply;
      if (over.signal.aborted) return;
      if (reply?.type === "over") flight.abort();
      else renewAfter(reply ? 0.6 : 0.1);
    });
  if (won && leaseMs < endMs) renewAfter(0.6); // else it ends with the build at the latest
  later(endMs, () => flight.abort(failure("timeout", "build", name, `it runs for longer than ${endMs} ms`)));

  const run = async (): Promise<Built> => {
    const stale = won?.payload ? await fromPayload(context, name, won.payload).catch(() => {}) : undefined;
    const value = await runNested(nesting, build, { signal, fence: won?.attempt ?? 0, stale });
    const lives = value === null ? [negativeMs, negativeMs] : livesOf(builder);
    return { payload: await toPayload(context, name, value), lives };
  };
  try {
    return await untilAborted(run(), signal);
  } catch (cause) {
    return signal.aborted && !isLockError(signal.reason, "timeout") ? {} : { hasFailed: true, cause };
  } finally {
    over.abort();
    nesting.key = "";
    nesting.outer = undefined;
  }
}
