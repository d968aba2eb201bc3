/**
 * One throw-away name on one Redis, and everything that is put there.
 *
 * @module
 */
import { msSince, sleep } from "../clock.ts";
import type { Signal } from "../command.ts";
import type { Environment } from "../environment.ts";
import { failure } from "../errors.ts";
import { lockKeys } from "../keys.ts";
import { ask, learn, type Node, tooFewAnswers } from "../node.ts";
import { sendPlain } from "../plain-command.ts";
import { newToken } from "../random.ts";
import type { Script, Verdict } from "../script.ts";
import { type AcquireReply, acquireScript } from "../scripts/acquire.ts";
import { type ReleaseReply, releaseScript } from "../scripts/release.ts";
import { estimateMs, tombstoneMs } from "../validity.ts";

/** The scripts of a lock under a throw-away name. Each rejects where there is no definite answer, or once aborted. */
export interface Bench {
  /** A new one. */
  token(): string;
  acquire(token: string, leaseMs?: number): Promise<AcquireReply>;
  /** `forGood` as in a roll-back: with a tombstone. */
  release(token: string, forGood?: boolean): Promise<ReleaseReply>;
  /** A lease with room for a few round trips. */
  shortMs(): number;
  /** Tells how long ago it was started. */
  stopwatch(): () => number;
  wait(ms: number): Promise<void>;
  /** Deletes everything. An acquire that was never answered leaves a tombstone, lest it arrive later. */
  clear(): Promise<void>;
}

const timeoutMs = 2_500;

/** Longer than the steps take, and short enough for what is left when the process is killed. */
const longMs = 30_000;

/** Puts nothing there yet. */
export function createBench(env: Environment, node: Node, prefix: string, signal: Signal | undefined): Bench {
  const { clock, random } = env;
  const name = `leasehold:self-test:${newToken(random)}`;
  const { lock, fence, tombstone } = lockKeys(prefix, name);
  const tokens: string[] = [];
  const unanswered = new Set<string>();

  const run = async <Result extends Verdict>(script: Script<Result>, keys: string[], args: (string | number)[]) => {
    const answer = await ask(env, node, { script, keys, args }, timeoutMs);
    learn(answer, timeoutMs);
    if (answer.reply) return answer.reply;
    throw tooFewAnswers("test", name, [answer]);
  };
  // An answer under way is waited for, as nothing could be cleaned up behind it.
  const goOn = (): void => {
    if (signal?.aborted)
      throw failure("aborted", "test", name, "the caller's signal aborted", { cause: signal.reason });
  };
  const release = (token: string, forGood: boolean): Promise<ReleaseReply> =>
    run(releaseScript, [lock, tombstone(token)], [token, forGood ? tombstoneMs(longMs) : 0]);
  const clearOnce = async (): Promise<void> => {
    for (const token of unanswered) await release(token, true);
    const spare = tokens.filter((token) => !unanswered.has(token)).map(tombstone);
    const { reason } = await sendPlain(env, node.client, ["DEL", lock, fence, ...spare], timeoutMs);
    if (reason !== undefined) throw failure("unavailable", "clean up after testing", name, reason);
  };

  return {
    token() {
      const token = newToken(random);
      tokens.push(token);
      return token;
    },
    async acquire(token, leaseMs = longMs) {
      goOn();
      unanswered.add(token);
      const reply = await run(acquireScript, [lock, fence, tombstone(token)], [token, leaseMs]);
      unanswered.delete(token);
      return reply;
    },
    async release(token, forGood = false) {
      goOn();
      return release(token, forGood);
    },
    shortMs: () => Math.max(250, Math.ceil(4 * estimateMs(node.trip))),
    stopwatch() {
      const startedAt = clock.now();
      return () => msSince(clock, startedAt);
    },
    wait: (ms) => sleep(clock, ms, signal).catch(() => {}), // the next step says why
    async clear() {
      for (let tries = 1; ; tries += 1) {
        try {
          return await clearOnce();
        } catch (error) {
          if (tries === 3) throw error;
          await sleep(clock, 100 * tries);
        }
      }
    },
  };
}
