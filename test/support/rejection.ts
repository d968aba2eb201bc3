import { expect } from "vitest";

/** What a promise rejects with: a test that gets a value instead fails. */
export async function rejection(promise: Promise<unknown>): Promise<unknown> {
  try {
    await promise;
  } catch (error) {
    return error;
  }
  return expect.fail("Expected a rejection");
}
