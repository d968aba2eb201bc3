/** A failure is worth something only if it can be seen again: the same run each time, by the fewest faults that it takes. */
import { execFile } from "node:child_process";
import { describe, expect, test } from "vitest";
import { mutantOf } from "../mutants/mutants.ts";
import { type Failure, type Replay, runBatch } from "./batch.ts";
import { failureText } from "./failure-text.ts";
import { simulate } from "./simulate.ts";
import { traces } from "./traces.ts";

const root = new URL("../../", import.meta.url);

/** Runs what a failure says, on the shipped code or on a mutant. */
async function replayed({ profile, seed, ...options }: Replay, mutant?: string): Promise<readonly Failure[]> {
  const patches = mutant === undefined ? [] : mutantOf(mutant).patches;
  const { failures } = await runBatch({ profile, from: seed, seeds: 1, patches, ...options });
  return failures;
}

describe("a run of the simulator", () => {
  test.each(["mixed", "mixed3", "workers", "cache", "restored", "lossless"])(
    "%s takes the same course whenever its seed is run",
    async (profile) => {
      const first = await simulate(profile, 7);
      const other = await simulate(profile, 8);
      expect(await simulate(profile, 7)).toEqual(first);
      expect(other.course).not.toBe(first.course);
    },
  );

  test("takes the same course when exactly the faults that it had are asked for", async () => {
    const whole = await simulate("mixed", 7);
    expect(await simulate("mixed", 7, { only: whole.faults })).toEqual(whole);
  });

  // What waits longer or shorter for want of a fault asks more or less often: so some of the later ones do go with it.
  // Were each fault drawn from one row of numbers, all of them would.
  test.each(["mixed", "workers", "cache", "restored"])(
    "%s keeps its later faults when an early one is taken away",
    async (profile) => {
      const shares: number[] = [];
      for (const seed of [0, 1, 2, 3, 4, 5, 6, 7]) {
        const { faults } = await simulate(profile, seed);
        for (const place of [4, 8, 12, 16, 20]) {
          const only = faults.filter((_, other) => other !== place);
          const again = new Set((await simulate(profile, seed, { only })).faults);
          const later = faults.slice(place + 1);
          shares.push(later.filter((fault) => again.has(fault)).length / later.length);
        }
      }
      shares.sort((a, b) => a - b);
      expect(shares[Math.floor(shares.length / 2)]).toBeGreaterThan(0.9);
      expect(shares.reduce((sum, share) => sum + share, 0) / shares.length).toBeGreaterThan(0.85);
    },
  );
});

describe("a failure", () => {
  test("shrinks to a few faults that break the same promise in the mutant, and none in what ships", async () => {
    const { profile, patches } = mutantOf("M8");
    const search = { profile, patches, from: 0, seeds: 10, untilFirst: true };
    const [whole] = (await runBatch(search)).failures;
    const [shrunk] = (await runBatch({ ...search, shrinks: true })).failures;
    if (whole === undefined || shrunk === undefined) throw new Error("M8 was not noticed");
    const { invariant } = whole.violation;
    const { faults } = await simulate(profile, whole.replay.seed);
    const { only = faults } = shrunk.replay;
    expect(shrunk.violation.invariant).toBe(invariant);
    expect(faults.length).toBeGreaterThan(50);
    expect(only.length).toBeLessThanOrEqual(8);
    expect(await replayed(shrunk.replay, "M8")).toEqual([shrunk]);
    expect(await replayed(shrunk.replay)).toEqual([]);
    // The least: with any one of them away, this seed keeps its promises.
    for (const fault of only) {
      const rest = { ...shrunk.replay, only: only.filter((one) => one !== fault) };
      const broken = (await replayed(rest, "M8")).map(({ violation }) => violation.invariant);
      expect(broken).not.toContain(invariant);
    }
  });

  test("prints its seed, its profile, and a command that shows it again", async () => {
    const { profile, patches } = mutantOf("M12");
    const batch = await runBatch({ profile, patches, from: 0, seeds: 10, untilFirst: true });
    const [failure] = batch.failures;
    if (failure === undefined) throw new Error("M12 was not noticed");
    const { violation, replay } = failure;
    const text = failureText(failure, "M12");
    expect(text).toContain(`seed ${replay.seed} of mixed`);
    expect(text).toContain(`${violation.invariant} ${violation.what}`);
    const options = /See it again: npm run sim -- (.*)$/.exec(text)?.[1] ?? "";
    const { code, output } = await shell(`node --conditions=leasehold-source test/sim/run.ts ${options}`);
    expect(code).toBe(1);
    expect(output).toContain(violation.what);
    const shipped = options.replace("--mutant M12 ", "");
    expect((await shell(`node --conditions=leasehold-source test/sim/run.ts ${shipped}`)).output).toBe("clean\n");
  });

  test.each(traces)("that was shrunk breaks $invariant in $mutant, and none in what ships", async (trace) => {
    const { mutant, invariant, replay } = trace;
    const broken = (await replayed(replay, mutant)).map(({ violation }) => violation.invariant);
    expect(broken).toEqual([invariant]);
    expect(await replayed(replay)).toEqual([]);
  });
});

/** By the Node that runs this test. */
function shell(command: string): Promise<{ readonly code: number; readonly output: string }> {
  const script = command.replace(/^node /, `"${process.execPath}" `);
  return new Promise((resolve) => {
    execFile("sh", ["-c", script], { cwd: root }, (error, output) =>
      resolve({ code: Number(error?.code ?? 0), output }),
    );
  });
}
