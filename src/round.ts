/**
 * Asks all nodes of a lock at once, and tells what each contributed.
 *
 * @module
 */

import type { Signal } from "./command.ts";
import type { LockContext } from "./context.ts";
import type { NodeReport } from "./errors.ts";
import { type Answer, ask, reportOf } from "./node.ts";
import type { ScriptCall, Verdict } from "./script.ts";
import { nodeTimeoutMs } from "./validity.ts";

/** One question to every node. */
export interface RoundQuestion<Result extends Verdict> extends ScriptCall<Result> {
  /** Bounds the node time-outs, with the round trip measured so far. */
  readonly leaseMs: number;
  /** A shorter bound, where the caller has one. */
  readonly withinMs?: number;
  readonly keepsAlive?: boolean;
  readonly signal?: Signal | undefined;
}

/** What had come back when a round was decided. */
export interface Round<Result> {
  /** In order of arrival. */
  readonly answers: readonly Answer<Result>[];
  readonly cost: Cost;
}

/** What events and errors tell of a round. */
export interface Cost {
  readonly nodes: readonly NodeReport[];
  readonly requests: number;
  readonly durationMs: number;
}

/**
 * Asks every node. `decided` resolves as soon as `onAnswer` returns true, or when all have answered; later answers still
 * reach `onAnswer`. `late` settles when none is outstanding any more, and never rejects.
 */
export function askAll<Result extends Verdict>(
  { env, nodes, floorMs }: Pick<LockContext, "env" | "nodes" | "floorMs">,
  { leaseMs, withinMs = leaseMs, ...question }: RoundQuestion<Result>,
  onAnswer: (answer: Answer<Result>, index: number) => boolean,
): { readonly decided: Promise<Round<Result>>; readonly late: Promise<unknown> } {
  const startedAt = env.clock.now();
  const answers: Answer<Result>[] = [];
  let late: Promise<unknown> = Promise.resolve();
  const enough = new Promise<void>((resolve, reject) => {
    const asked = nodes.map(async (node, index) => {
      const timeoutMs = Math.min(withinMs, nodeTimeoutMs(node.trip, leaseMs, floorMs));
      const answer = await ask(env, node, { ...question, timeoutMs });
      answers.push(answer);
      if (onAnswer(answer, index)) resolve();
    });
    late = Promise.all(asked).then(() => resolve(), reject);
  });
  const decided = enough.then(() => ({
    answers: [...answers],
    cost: {
      nodes: answers.map(reportOf),
      requests: answers.reduce((sum, { requests }) => sum + requests, 0),
      durationMs: env.clock.now().monotonic - startedAt.monotonic,
    },
  }));
  return { decided, late };
}
