/** The last line of a test run: `N passed, N failed`, behind one with `N skipped` where tests were. */
import { writeSync } from "node:fs";
import type { Reporter, SerializedError, TestModule } from "vitest/node";

/** What a run came to. */
export interface Tally {
  readonly passed: number;
  readonly failed: number;
  readonly skipped: number;
}

/** Prints the line when the process ends, so that nothing comes after it. */
export class TallyReporter implements Reporter {
  onTestRunEnd(modules: readonly TestModule[], errors: readonly SerializedError[]): void {
    const line = lineOf(tally(modules, errors.length));
    process.once("exit", () => writeSync(1, `${line}\n`));
  }
}

/** A file or a hook that fails, and an error outside of all tests, count as failures too. */
export function tally(modules: readonly TestModule[], strayErrors: number): Tally {
  const count = { passed: 0, failed: strayErrors, skipped: 0 };
  for (const module of modules) {
    count.failed += module.errors().length;
    for (const suite of module.children.allSuites()) count.failed += suite.errors().length;
    for (const test of module.children.allTests()) {
      const { state } = test.result();
      if (state === "pending")
        count.failed += 1; // the run ended before it did
      else count[state] += 1;
    }
  }
  return count;
}

export function lineOf({ passed, failed, skipped }: Tally): string {
  return `${skipped > 0 ? `${skipped} skipped\n` : ""}${passed} passed, ${failed} failed`;
}
