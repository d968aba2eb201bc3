/**
 * Looks for the least that still breaks the same promise: first fewer processes, then fewer faults. What is left of a run
 * takes another course as soon as one fault is gone, so each set is tried with a few seeds; its faults happen in all.
 */
import type { Failure } from "./batch.ts";
import { type Run, simulate } from "./simulate.ts";

const mostEvents = 4_000_000;
const seedsEach = 4;

/** Delta debugging over the faults that were on record (Zeller and Hildebrandt, ddmin), not over the seed. */
export async function shrunk(failure: Failure, { faults, processes }: Run): Promise<Failure> {
  const { profile } = failure.replay;
  let least = failure;
  let events = 0;
  const still = async (only: readonly string[], processes: number): Promise<boolean> => {
    for (let place = 0; place < seedsEach && events < mostEvents; place += 1) {
      const seed = least.replay.seed + place;
      const { violation, events: more } = await simulate(profile, seed, { only, processes });
      events += more;
      if (violation?.invariant !== failure.violation.invariant) continue;
      least = { replay: { profile, seed, only, processes }, violation };
      return true;
    }
    return false;
  };

  let count = processes;
  while (count > 1 && (await still(faults, count - 1))) count -= 1;
  let left = faults;
  for (let parts = 2; left.length > 0; ) {
    const size = Math.ceil(left.length / parts);
    let found: readonly string[] | undefined;
    for (let start = 0; start < left.length && found === undefined; start += size) {
      const rest = left.filter((_, place) => place < start || place >= start + size);
      if (await still(rest, count)) found = rest;
    }
    if (found !== undefined) {
      left = found;
      parts = Math.max(2, parts - 1);
    } else if (size === 1) break;
    else parts = Math.min(left.length, parts * 2);
  }
  return least;
}
