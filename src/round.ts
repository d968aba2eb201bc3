/**
 * Asks all nodes of a lock at once, and tells what each contributed.
 *
 * @module
 */
import { msSince } from "./clock.ts";
import { type LockContext, settle } from "./context.ts";
import type { NodeReport } from "./errors.ts";
import { type Answer, ask, learn, type Question, reportOf } from "./node.ts";
import type { Verdict } from "./script.ts";
import { nodeTimeoutMs } from "./validity.ts";

/** One question to every node. */
export interface RoundQuestion<Result extends Verdict> extends Question<Result> {
  /** Bounds the node time-outs, with the round trip measured so far. */
  readonly leaseMs: number;
  /** A shorter bound, where the caller has one. */
  readonly withinMs?: number;
}

/** What has come back of a round that is decided. */
export interface Round<Result> {
  /** In order of arrival; those that come later are still added. */
  readonly answers: readonly Answer<Result>[];
  readonly cost: Cost;
}

/** What events and errors tell of a round. */
export interface Cost {
  readonly nodes: readonly NodeReport[];
  /** Those still under way count as well. */
  readonly requests: number;
  readonly durationMs: number;
}

/**
 * Asks every node, and resolves as soon as `decides` returns true of an answer, or when all have answered. Answers after
 * that still reach `decides`; `waitUntil` gets the wait for them.
 */
export async function askAll<Result extends Verdict>(
  context: Pick<LockContext, "env" | "nodes" | "floorMs" | "waitUntil">,
  question: RoundQuestion<Result>,
  decides?: (answer: Answer<Result>, index: number) => boolean,
): Promise<Round<Result>> {
  const { env, nodes, floorMs } = context;
  const { leaseMs, withinMs = leaseMs } = question;
  const startedAt = env.clock.now();
  const answers: Answer<Result>[] = [];
  let all: Promise<unknown> | undefined;
  await new Promise<unknown>((resolve, reject) => {
    all = Promise.all(
      nodes.map(async (node, index) => {
        const timeoutMs = Math.min(withinMs, nodeTimeoutMs(node.trip, leaseMs, floorMs));
        const answer = await ask(env, node, question, timeoutMs);
        learn(answer, timeoutMs);
        answers.push(answer);
        if (decides?.(answer, index)) resolve(undefined);
      }),
    );
    all.then(resolve, reject);
  });
  const missing = nodes.length - answers.length;
  if (missing && all) void settle(context, all);
  return {
    answers,
    cost: {
      nodes: answers.map(reportOf),
      requests: answers.reduce((sum, answer) => sum + answer.requests, missing),
      durationMs: msSince(env.clock, startedAt),
    },
  };
}
