/**
 * How the command ends.
 *
 * @module
 */
import { isLockError } from "leasehold";

/** Exit codes. */
export const exit = { ok: 0, finding: 1, usage: 2, unreachable: 3 } as const;

/** The command line itself is wrong: nothing was sent. Its message never repeats what may hold a secret. */
export class UsageError extends Error {
  override readonly name = "UsageError";
}

/** What an error says and what it ends with. Only messages are shown: foreign errors carry commands, and these secrets. */
export function endingOf(error: unknown): { readonly code: number; readonly kind: string; readonly message: string } {
  const message = error instanceof Error ? error.message : String(error);
  if (error instanceof UsageError) return { code: exit.usage, kind: "usage", message };
  // An argument that was refused before anything was sent, or credentials that a node has refused.
  if (isLockError(error, "config"))
    return { code: error.nodes ? exit.unreachable : exit.usage, kind: "config", message };
  return { code: exit.unreachable, kind: isLockError(error) ? error.code : "unavailable", message };
}
