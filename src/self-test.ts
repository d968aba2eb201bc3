/**
 * selfTest: proves on a live Redis what a lock promises.
 *
 * @module
 */
import type { CommandClient, Signal } from "./command.ts";
import { type Environment, systemEnvironment } from "./environment.ts";
import { isLockError } from "./errors.ts";
import { createNode } from "./node.ts";
import type { AcquireReply } from "./scripts/acquire.ts";
import { type Bench, createBench } from "./self-test/bench.ts";
import { checkClient, checkFunction, checkPrefix, checkSignal } from "./validate.ts";

/** What is proved. Stable strings. */
export type CheckCode = "exclusive" | "own-token" | "wrong-token" | "tombstone" | "expiry" | "fence";

/** One promise, and whether this Redis keeps it. */
export interface Check {
  readonly code: CheckCode;
  readonly promise: string;
  readonly kept: boolean;
  /** What was seen. */
  readonly saw: string;
}

/** What a self-test came to. */
export interface SelfTest {
  readonly label: string;
  /** Whether every promise was kept. */
  readonly passed: boolean;
  readonly checks: readonly Check[];
}

/** Settings of a self-test. */
export interface SelfTestOptions {
  /**
   * That of the locks, whose keys are what the credentials may touch.
   *
   * @default {"lock"}
   */
  readonly prefix?: string | undefined;
  /** Ends the test with "aborted", once it has cleaned up. */
  readonly signal?: Signal | undefined;
  /** Receives each check as it is done. */
  readonly onCheck?: ((check: Check) => void) | undefined;
}

/**
 * Acquires and releases under a throw-away name, with the scripts that every lock uses, and proves what they promise:
 * exclusive, a wrong token does not release, expiry, fences grow, a token finds what it was granted, and one that was
 * rolled back is never granted again. Takes about a second.
 *
 * Leaves nothing behind, also when it fails or is aborted. Only where a request was never answered does a tombstone stay
 * for two minutes, so that the request does nothing should it arrive later.
 *
 * @throws LockError "unavailable" when Redis gave no definite answer, or could not be cleaned up; "aborted", and all is
 * cleaned up; "config" for bad arguments or refused credentials
 *
 * @example
 * ```ts
 * import { selfTest } from "leasehold";
 * import { memoryClient } from "leasehold/memory";
 *
 * const { passed, checks } = await selfTest(memoryClient());
 * console.log(passed, checks.length); // true 6
 * ```
 */
export async function selfTest(
  client: CommandClient,
  options?: SelfTestOptions,
  environment?: Environment,
): Promise<SelfTest> {
  const { prefix = "lock", signal, onCheck } = options ?? {};
  const node = createNode(checkClient(client), 1);
  checkPrefix(prefix);
  checkSignal(signal);
  checkFunction("onCheck", onCheck, true);
  const env = environment ?? systemEnvironment();
  const bench = createBench(env, node, prefix, signal);
  const checks: Check[] = [];
  try {
    for await (const check of proofs(bench)) {
      checks.push(check);
      onCheck?.(check);
    }
  } catch (error) {
    // What went wrong first is what is to be told; but who aborts is to know whether anything was left.
    await bench.clear().catch((trouble: unknown) => {
      if (isLockError(error, "aborted")) throw trouble;
    });
    throw error;
  }
  await bench.clear();
  return { label: node.label, passed: checks.every(({ kept }) => kept), checks };
}

/** The steps, in an order in which each begins with what the one before it has left. */
async function* proofs(bench: Bench): AsyncGenerator<Check> {
  const [first, second] = [bench.token(), bench.token()];
  const granted = await bench.acquire(first);
  const refused = await bench.acquire(second);
  const exclusive = granted.type === "granted" && refused.type === "held";
  yield check(
    "exclusive",
    "While one holds it, another is refused",
    exclusive,
    `${granted.type}, then ${refused.type}`,
  );

  const again = await bench.acquire(first);
  const same = again.type === "granted" && again.fence === granted.fence;
  const what = `${again.type} under ${same ? "the same fence" : `fence ${again.fence}, after ${granted.fence}`}`;
  yield check("own-token", "A holder whose answer was lost finds what it was granted", same, what);

  const wrong = await bench.release(second);
  const still = await bench.acquire(first);
  const safe = wrong.type === "foreign" && still.type === "granted" && still.fence === granted.fence;
  yield check(
    "wrong-token",
    "A token that does not hold it cannot release it",
    safe,
    `${wrong.type}, then ${still.type}`,
  );

  const freed = await bench.release(first, true);
  const dead = await bench.acquire(first);
  const buried = freed.type === "deleted" && dead.type === "cancelled";
  yield check(
    "tombstone",
    "A token that was rolled back is never granted again",
    buried,
    `${freed.type}, then ${dead.type}`,
  );

  const { ms, brief, early, late } = await expiry(bench);
  const ended = brief.type === "granted" && early.type === "held" && late.type === "granted";
  const seen = `${brief.type} for ${ms} ms; ${early.type}, then ${late.type}`;
  yield check("expiry", "A lease ends by itself, and not before", ended, seen);

  const fences = [granted, brief, late].map(({ fence }) => fence);
  const grow = fences.every((fence, at) => fence > (fences[at - 1] ?? 0));
  yield check("fence", "Fences grow, over a release and an expiry", grow, fences.join(", then "));
}

/** A lease, another's try before its end, and one after it; again with a longer one where this machine was too slow. */
async function expiry(bench: Bench): Promise<{ ms: number } & Record<"brief" | "early" | "late", AcquireReply>> {
  // Two answers take 5 s at most, so it ends.
  for (let ms = bench.shortMs(); ; ms *= 2) {
    const [holder, other] = [bench.token(), bench.token()];
    const elapsedMs = bench.stopwatch();
    const brief = await bench.acquire(holder, ms);
    const early = await bench.acquire(other);
    if (early.type === "granted" && elapsedMs() >= ms) {
      await bench.release(other);
      continue;
    }
    await bench.wait(ms + 5);
    return { ms, brief, early, late: await bench.acquire(other) };
  }
}

function check(code: CheckCode, promise: string, kept: boolean, saw: string): Check {
  return { code, promise, kept, saw };
}
