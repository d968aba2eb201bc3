/**
 * The shipped algorithms under every fault we know, on virtual time: a hundred seeds of each profile break no promise.
 * `npm run sim` runs more of them, and shows what a failing seed takes to be seen again.
 */
import { describe, expect, test } from "vitest";
import { joined, runBatch } from "./sim/batch.ts";
import { failureText } from "./sim/failure-text.ts";
import { excess, profileNames, profileOf, shortfall } from "./sim/profiles.ts";

describe("the simulator", () => {
  test.each(profileNames)(
    "a hundred seeds of the profile %s break no promise",
    { timeout: 120_000 },
    async (profile) => {
      const halves = [0, 50].map((from) => runBatch({ profile, from, seeds: 50 }));
      const batch = joined(await Promise.all(halves));
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
