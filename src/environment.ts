/**
 * Everything an algorithm takes from outside besides its clients: what a simulator replaces.
 *
 * @module
 */
import { type Clock, systemClock } from "./clock.ts";
import { currentHost, type Host } from "./host.ts";
import { type Random, systemRandom } from "./random.ts";

/** Time, chance and the kind of runtime. */
export interface Environment {
  readonly clock: Clock;
  readonly random: Random;
  readonly host: Host;
}

/** The real one. Call it at the first use, never at import: some runtimes forbid both clocks and chance there. */
export function systemEnvironment(): Environment {
  return { clock: systemClock, random: systemRandom, host: currentHost() };
}
