/**
 * Sends one plain command, for what no script can ask.
 *
 * @module
 */
import { msSince } from "./clock.ts";
import { type Command, type CommandClient, isReplyError, type Reply, untilAborted } from "./command.ts";
import type { Environment } from "./environment.ts";
import { isLockError, scrub } from "./errors.ts";

/** What came back of one plain command: a reply, or why there is none. */
export interface PlainAnswer {
  readonly reply?: Reply;
  readonly reason?: string;
  /** Redis' own code, where it said no. */
  readonly code?: string;
  /** This machine's wall clock at the send. */
  readonly sentAtMs: number;
  readonly ms: number;
}

/** Sends it once. Never rejects for what a Redis or a network does; rejects with the client's own "config" error. */
export async function sendPlain(
  { clock }: Pick<Environment, "clock">,
  client: CommandClient,
  command: Command,
  timeoutMs: number,
): Promise<PlainAnswer> {
  const timeUp = new AbortController();
  const cancel = clock.after(timeoutMs, true, () => timeUp.abort(new Error("timeout")));
  const sentAt = clock.now();
  const took = (): Pick<PlainAnswer, "sentAtMs" | "ms"> => ({ sentAtMs: sentAt.wall, ms: msSince(clock, sentAt) });
  try {
    const { signal } = timeUp;
    const reply = await untilAborted(client.execute(command, { signal }), signal);
    return { reply, ...took() };
  } catch (error) {
    if (isLockError(error, "config")) throw error;
    const reason = scrub(Object(error).message) || "no answer";
    return { reason, ...(isReplyError(error) && { code: error.code }), ...took() };
  } finally {
    cancel();
  }
}
