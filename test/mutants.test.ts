/** Each wrong algorithm, and the proof that the simulator tells it from the right one within the seeds of the gate. */
import { afterAll, describe, expect, test } from "vitest";
import { mutantNames, mutantOf } from "./mutants/mutants.ts";
import { runBatch } from "./sim/batch.ts";
import { excess, shortfall } from "./sim/profiles.ts";

describe("the simulator", () => {
  const startedAt = performance.now();
  let mutants = 0;
  afterAll(() => {
    const seconds = (performance.now() - startedAt) / 1_000;
    console.log(`The simulator looked for ${mutants} mutants in ${seconds.toFixed(0)} s`);
  });

  test.each(mutantNames.map((name) => [name, mutantOf(name).mistake]))(
    "%s is noticed: %s",
    { timeout: 120_000 },
    async (name) => {
      const { profile, invariants, patches } = mutantOf(name);
      // Progress is a matter of many seeds.
      const untilFirst = !invariants.includes("I10");
      const batch = await runBatch({ profile, patches, from: 0, seeds: 100, untilFirst });
      const broken = batch.failures.map(({ violation }) => violation.invariant);
      if (excess(batch)) broken.push("I9");
      if (shortfall(batch)) broken.push("I10");
      mutants += 1;
      expect(invariants).toContain(broken[0]);
    },
  );

  test("a mutant that has come loose from the code is an error, not a pass", async () => {
    const patches = [{ file: "src/clock.ts", find: "what is not there", replace: "" }];
    const batch = runBatch({ profile: "mixed", patches, from: 0, seeds: 1 });
    await expect(batch).rejects.toThrow("A mutant has come loose");
  });
});
