import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { retryDelayMs } from "../src/wait.ts";

const chance = fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true });
const holder = fc.option(fc.integer({ min: 0, max: 60_000 }), { nil: undefined });
const refusal = fc.record({ chance, holderMs: holder });

describe("retryDelayMs()", () => {
  test("the first retries grow by half each time, around 30 ms and up to a second", () => {
    const delays = [1, 2, 3, 4, 5, 6, 7, 8].map((retry) =>
      Math.round(retryDelayMs({ retry, waitedMs: 10_000, holderMs: undefined, chance: 0.5 })),
    );
    expect(delays).toEqual([45, 68, 101, 152, 228, 342, 513, 769]);
    expect(retryDelayMs({ retry: 20, waitedMs: 60_000, holderMs: undefined, chance: 0.5 })).toBe(1_000);
  });

  test("waiters that were refused at the same moment spread over as much as they wait", () => {
    for (const retry of [1, 4, 8, 30]) {
      const at = (chance: number): number => retryDelayMs({ retry, waitedMs: 60_000, holderMs: undefined, chance });
      const middle = at(0.5);
      expect(at(0)).toBeCloseTo(0.5 * middle);
      expect(at(1 - 2 ** -32)).toBeCloseTo(1.5 * middle);
      expect(at(0.25)).toBeCloseTo(0.75 * middle);
    }
  });

  test("the first 7 retries come no later than 5 ms after the holder's lease can end", () => {
    fc.assert(
      fc.property(
        fc.integer({ min: 1, max: 7 }),
        fc.nat(60_000),
        fc.nat(60_000),
        chance,
        (retry, waitedMs, holderMs, chance) => {
          expect(retryDelayMs({ retry, waitedMs, holderMs, chance })).toBeLessThanOrEqual(holderMs + 5);
        },
      ),
    );
  });

  test("a delay is never negative, nor longer than a second and a half, whatever the holder says", () => {
    fc.assert(
      fc.property(fc.array(refusal, { minLength: 1, maxLength: 100 }), (refusals) => {
        let waitedMs = 0;
        for (const [index, each] of refusals.entries()) {
          const delay = retryDelayMs({ retry: index + 1, waitedMs, ...each });
          expect(delay).toBeGreaterThanOrEqual(0);
          expect(delay).toBeLessThanOrEqual(1_500);
          waitedMs += delay;
        }
      }),
    );
  });

  test("a wait of 10 s sends 20 requests at the most, for any chance and any holder", () => {
    const requestsIn10s = (refusals: Iterable<{ chance: number; holderMs: number | undefined }>): number => {
      let waitedMs = 0;
      let requests = 1;
      for (const each of refusals) {
        waitedMs += retryDelayMs({ retry: requests, waitedMs, ...each });
        if (waitedMs > 10_000) return requests + 1; // the last one is made as the time runs out
        requests += 1;
      }
      return expect.fail("The wait has not ended");
    };
    fc.assert(
      fc.property(fc.infiniteStream(refusal), (refusals) => {
        expect(requestsIn10s(refusals)).toBeLessThanOrEqual(20);
      }),
      { numRuns: 1_000 },
    );
    // The worst case: every holder is about to end, and no round trip takes any time.
    const worst = Array.from({ length: 100 }, () => ({ chance: 0, holderMs: 0 }));
    expect(requestsIn10s(worst)).toBe(20);
  });
});
