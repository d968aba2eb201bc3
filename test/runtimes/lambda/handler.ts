/**
 * A Lambda function that does what its event asks for, in the real runtime client.
 *
 * @module
 */
import { readFileSync, writeFileSync } from "node:fs";
import { createLock, fencedSet, isLockError, type Lease } from "leasehold";
import { restClient } from "leasehold/rest";
import { runScenario, type Stage } from "../scenario.ts";

/** What is asked for. */
export type Event = { readonly stage: Stage } & (
  | { readonly task: "scenario" | "cycle" | "leave" | "look" }
  /** Writes a file once it holds, and then stands still until somebody writes to the pipe. */
  | { readonly task: "hold"; readonly holding: string; readonly pipe: string }
);

let left: Lease | undefined;
let leftWork: Promise<unknown> | undefined;

async function codeOf(promise: Promise<unknown>): Promise<unknown> {
  try {
    return await promise;
  } catch (error) {
    return isLockError(error) ? error.code : String(error);
  }
}

export async function handler(event: Event): Promise<unknown> {
  const { stage } = event;
  const client = restClient({ url: stage.urls[0], token: stage.token });
  const lock = createLock(client, { leaseMs: 1_000 });

  if (event.task === "scenario") return runScenario(stage);
  if (event.task === "cycle") return (await lock.acquire(stage.name)).release();
  if (event.task === "hold") {
    const lease = await lock.acquire(stage.name);
    let timers = 0;
    const timer = setInterval(() => timers++, 1);
    writeFileSync(event.holding, "");
    readFileSync(event.pipe);
    // Nothing but this line of code has run since then: no timer, no callback.
    const atOnce = { remaining: lease.remaining(), aborted: lease.signal.aborted, timers };
    clearInterval(timer);
    const extended = await codeOf(lease.extend());
    const written = await fencedSet(client, { key: `{${stage.name}}:guarded`, value: "old", fence: lease.fence });
    return { atOnce, extended, written, released: await lease.release() };
  }
  if (event.task === "leave") {
    // As no handler should: the work goes on after the answer, that is, after the thaw.
    leftWork = lock.withLock(stage.name, (lease) => {
      left = lease;
      return new Promise((resolve) => setTimeout(resolve, 30));
    });
    leftWork.catch(() => {});
    while (!left) await new Promise((resolve) => setTimeout(resolve, 1));
    return { held: left.remaining() > 0 };
  }
  return {
    remaining: left?.remaining(),
    aborted: left?.signal.aborted,
    outcome: await codeOf(Promise.resolve(leftWork)),
  };
}
