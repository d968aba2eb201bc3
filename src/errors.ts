/**
 * The one error that callers catch, and the grammar of its messages.
 *
 * @module
 */
import { isCoded, ReplyError } from "./command.ts";

/** Why an operation failed. Stable strings: compare these, never classes or messages. */
export type LockErrorCode = "contended" | "timeout" | "unavailable" | "aborted" | "lost" | "build-failed" | "config";

/** How a lease ended before its holder released it. */
export type LostBy = "expired" | "stolen" | "maxHold";

/** What one Redis contributed to an operation. Holds no token, password or key value. */
export interface NodeReport {
  /** The client's label, or "node 1" and so on. */
  readonly label: string;
  /** What came back: a definite reply by its meaning, an error that Redis answered with, or nothing that can be read. */
  readonly outcome: string;
  /** Redis' error or the text of a failure, shortened and without secrets, or "timeout"; absent with a definite reply. */
  readonly reason?: string;
  /** From the send to the answer, in ms. */
  readonly ms: number;
}

/** What a {@link LockError} carries besides its code and message. */
export interface LockErrorDetails {
  readonly lockName?: string | undefined;
  readonly nodes?: readonly NodeReport[] | undefined;
  readonly cause?: unknown;
  /** With "lost": the value of a task that finished after its lease was over. */
  readonly result?: unknown;
  /** With "lost": how the lease ended. */
  readonly lostBy?: LostBy | "released" | undefined;
  /** When another try may succeed, in ms from now: a holder's lease, a back-off, or what the server asked for. */
  readonly retryAfterMs?: number | undefined;
}

/**
 * Every failure of a lock or a guarded cache. Printing it, or `JSON.stringify`, shows the code, the name and what each
 * node answered, and no secret.
 *
 * @example
 * ```ts
 * import { createLock, isLockError } from "leasehold";
 * import { memoryClient } from "leasehold/memory";
 *
 * const lock = createLock(memoryClient());
 * await lock.acquire("invoice:42");
 * try {
 *   await lock.acquire("invoice:42", { waitMs: 0 });
 * } catch (error) {
 *   if (!isLockError(error, "contended")) throw error;
 *   console.log(error.retryAfterMs);
 * }
 * ```
 */
export class LockError extends Error {
  override readonly name = "LockError";
  declare readonly code: LockErrorCode;
  declare readonly lockName?: string;
  declare readonly nodes?: readonly NodeReport[];
  declare readonly result?: unknown;
  declare readonly lostBy?: LostBy | "released";
  declare readonly retryAfterMs?: number;

  constructor(code: LockErrorCode, message: string, details?: LockErrorDetails) {
    super(message);
    for (const [field, value] of Object.entries({ ...details, code })) {
      // A task's value is for its caller, not for a log.
      if (value !== undefined) Object.defineProperty(this, field, { value, enumerable: !/result|cause/.test(field) });
    }
  }

  /** The printable part, for loggers that serialise errors as JSON; of the cause its text, shortened. */
  toJSON(): object {
    const { message, cause } = this;
    // A caller's signal may abort with anything at all, also with what has no way to become a string.
    return { ...this, message, cause: scrub(Object(cause).message ?? cause) || undefined };
  }
}

/**
 * Whether an error is a {@link LockError}, of the given code if one is given. Told by name and code, not by class, so
 * that it holds across two copies of the package.
 *
 * @example
 * ```ts
 * import { createLock, isLockError } from "leasehold";
 * import { memoryClient } from "leasehold/memory";
 *
 * const error = await createLock(memoryClient()).acquire("").catch((reason: unknown) => reason);
 * console.log(isLockError(error, "config"), isLockError(error, "lost")); // true false
 * ```
 */
export function isLockError(error: unknown, code?: LockErrorCode): error is LockError {
  return isCoded(error, "LockError") && (!code || error.code === code);
}

/** An error in the one grammar: `Cannot acquire "jobs:7" as another holds it`. */
export function failure(
  code: LockErrorCode,
  action: string,
  name: string,
  reason: string,
  details?: LockErrorDetails,
): LockError {
  return new LockError(code, `Cannot ${action} ${JSON.stringify(name)} as ${reason}`, { lockName: name, ...details });
}

/** The "config" error of an argument, in the same grammar. */
export function configError(option: string, expected: string, shown: string): LockError {
  return new LockError("config", `Cannot use ${option} as it must be ${expected}: current value is ${shown}`);
}

/** What a foreign client threw, as one of ours: only its text, as the object itself may hold the whole command. */
export function plainError(error: unknown, isFromRedis: (error: Error) => boolean): Error {
  if (!(error instanceof Error)) return new Error(scrub(String(error)));
  return isFromRedis(error) ? new ReplyError(error.message) : new Error(scrub(error.message || error.name));
}

/**
 * Foreign text, short enough for a message; nothing of what is no text. It ends where a secret begins: told by its first
 * letters, as the text may be cut or escaped, so that a proxy's quotation of a command shows no half of a value.
 */
export function scrub(text: unknown, secrets: readonly string[] = []): string {
  if (typeof text !== "string") return "";
  return secrets
    .reduce((rest, secret) => rest.split(secret.replace(/\\/g, "").slice(0, 8))[0] as string, text.replace(/\\/g, ""))
    .slice(0, 200);
}
