/**
 * Runs one build, and makes a payload of its value.
 *
 * @module
 */
import { untilAborted } from "../command.ts";
import { toPayload } from "./codec.ts";
import type { Flight } from "./flight.ts";
import type { Reader } from "./reader.ts";

/** What came of a build: one of these, or none where nobody waits for it any more. */
export interface Built {
  readonly payload?: string;
  /** Of a failure. */
  readonly cause?: unknown;
  /** Of a value that cannot be stored. */
  readonly error?: unknown;
}

/**
 * Runs the build of a reader until it settles or is deserted. Never rejects. When its lease is over, later readers do
 * not join it: another process may have built meanwhile, and a build that hangs must not hold this one up.
 */
export async function runBuild(
  { context, deserted, detach }: Flight,
  { wanted: { name, leaseMs, build } }: Reader,
  fence: number,
): Promise<Built> {
  if (deserted.aborted) return {};
  const cancel = context.env.clock.after(leaseMs, false, detach);
  let value: unknown;
  try {
    const running = (async () => build({ signal: deserted, fence }))();
    value = await untilAborted(running, deserted);
  } catch (cause) {
    return deserted.aborted ? {} : { cause };
  } finally {
    cancel();
  }
  try {
    return { payload: toPayload(name, value) };
  } catch (error) {
    return { error };
  }
}
