/**
 * fencedSet: a write to Redis that is refused once a newer holder has written.
 *
 * @module
 */
import type { CommandClient } from "./command.ts";
import { type Environment, systemEnvironment } from "./environment.ts";
import { fenceKeyOf } from "./keys.ts";
import { ask, createNode, tooFewAnswers } from "./node.ts";
import { fencedSetScript } from "./scripts/fenced-set.ts";
import { checkClient, checkDuration, checkName, invalid } from "./validate.ts";

/** One fenced write. */
export interface FencedWrite {
  /**
   * The Redis key to write, as it is, without a prefix. Its fence stands beside it: at `<key>:fence` if the key has a hash
   * tag, else at `{<key>}::fence`, which is in the same slot. Use a key for fenced writes alone: `SET` knows no fence.
   */
  readonly key: string;
  readonly value: string;
  /** That of the lease under which the value was made: `lease.fence`. */
  readonly fence: number;
  /**
   * How long the value lives, in whole ms from 1 to 365 days. Its fence lives as long, and 7 days at least.
   *
   * @default {without end}
   */
  readonly ttlMs?: number | undefined;
}

/** As long as a lease by default: whoever writes under one has no more time. */
const timeoutMs = 10_000;

/**
 * Writes a string to Redis unless a newer fence has written there, in one atomic step. What a lease cannot promise, this
 * does: a holder that was paused for longer than its lease cannot overwrite what its successor wrote. Before you read what
 * your write depends on, write once under your own fence: from then on older holders are refused.
 *
 * @returns false when a newer fence has written: then nothing has changed
 * @throws LockError "unavailable" when there was no definite answer: the write may have happened, and the same call again is
 * safe; "config" for bad arguments
 *
 * @example
 * ```ts
 * import { createLock, fencedSet } from "leasehold";
 * import { memoryClient } from "leasehold/memory";
 *
 * const client = memoryClient();
 * const lease = await createLock(client).acquire("report");
 * const written = await fencedSet(client, { key: "report:latest", value: "42 rows", fence: lease.fence });
 * console.log(written);
 * ```
 */
export async function fencedSet(
  client: CommandClient,
  write: FencedWrite,
  environment?: Environment,
): Promise<boolean> {
  const { key, value, fence, ttlMs } = Object(write) as FencedWrite;
  const node = createNode(checkClient(client), 1);
  const fenceKey = fenceKeyOf(checkName("key", key));
  if (typeof value !== "string") throw invalid("value", typeof value, "a string");
  if (!Number.isSafeInteger(fence) || fence < 1) throw invalid("fence", fence, "a safe integer from 1");
  if (ttlMs !== undefined) checkDuration("ttlMs", ttlMs, 1);
  const question = { script: fencedSetScript, keys: [key, fenceKey], args: [fence, value, ttlMs ?? 0] };
  const answer = await ask(environment ?? systemEnvironment(), node, question, timeoutMs);
  if (answer.reply) return answer.reply.type === "written";
  throw tooFewAnswers("write", key, [answer]);
}
