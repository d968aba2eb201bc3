import { expect } from "vitest";
import { isLockError, type LockError, type LockErrorCode } from "../../src/errors.ts";

/** What a promise rejects with: a test that gets a value instead fails. */
export async function rejection(promise: Promise<unknown>): Promise<unknown> {
  let value: unknown;
  try {
    value = await promise;
  } catch (error) {
    return error;
  }
  return expect.fail(`Expected a rejection, but it resolved to ${String(value)}`);
}

/** The error a promise rejects with, which must be a LockError of this code. */
export async function lockError(promise: Promise<unknown>, code: LockErrorCode): Promise<LockError> {
  const error = await rejection(promise);
  if (isLockError(error, code)) return error;
  throw error;
}
