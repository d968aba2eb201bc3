/**
 * Waiting, in any runtime.
 *
 * @module
 */
import type { Signal } from "leasehold";

/** Resolves after so many ms, or as soon as the signal aborts. */
export function pause(ms: number, signal?: Signal): Promise<void> {
  return new Promise((resolve) => {
    if (signal?.aborted) return resolve();
    const end = (): void => {
      clearTimeout(timer);
      signal?.removeEventListener("abort", end);
      resolve();
    };
    const timer = setTimeout(end, ms);
    signal?.addEventListener("abort", end);
  });
}
