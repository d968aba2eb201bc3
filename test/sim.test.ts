/**
 * The shipped algorithms under every fault we know, on virtual time: a hundred seeds of each profile break no promise.
 * `npm run sim` runs more of them, and shows what a failing seed takes to be seen again.
 */
import { afterAll, describe, expect, test } from "vitest";
import { joined, runBatch } from "./sim/batch.ts";
import { failureText } from "./sim/failure-text.ts";
import { excess, profileNames, profileOf, shortfall } from "./sim/profiles.ts";

describe("the simulator", () => {
  const startedAt = performance.now();
  let profiles = 0;
  // The gate has ten minutes for all of its tests: whoever adds a profile sees what all of them take.
  afterAll(() => {
    const seconds = (performance.now() - startedAt) / 1_000;
    console.log(`The simulator ran a hundred seeds of ${profiles} profiles in ${seconds.toFixed(0)} s`);
  });

  test.each(profileNames)(
    "a hundred seeds of the profile %s break no promise",
    { timeout: 120_000 },
    async (profile) => {
      const halves = [0, 50].map((from) => runBatch({ profile, from, seeds: 50 }));
      const batch = joined(await Promise.all(halves));
      profiles += 1;
      expect(batch.failures.map((failure) => failureText(failure))).toEqual([]);
      expect(excess(batch)).toBeUndefined();
      expect(shortfall(batch)).toBeUndefined();
      const world = profileOf(profile);
      // A round and the roll-back of the one before are more than the connections of one request of a Worker.
      if (world.isWorker && world.nodes > 1) expect(batch.queued).toBeGreaterThan(0);
      // Where exclusion is not promised, it is the fences that hold: a world in which nobody ever overlaps shows nothing.
      if (world.kind === "lock" && !world.exclusion && profile !== "calendar")
        expect(batch.overlaps).toBeGreaterThan(0);
    },
  );
});
