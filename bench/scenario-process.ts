/** Measures one scenario in its own process: its place in the list, then the three ports. Prints a `Result` as JSON. */
import { type Cycle, type Result, type Scenario, scenarios } from "./scenarios.ts";

const warmUps = 2;
const rounds = 25;

const [place = -1, redis = 0, near = 0, far = 0] = process.argv.slice(2).map(Number);
const scenario = scenarios[place];
if (!scenario) throw new Error(`There is no scenario ${place}`);
const result = await compare(scenario, scenario.begin({ redis, near, far }));
process.stdout.write(JSON.stringify(result), () => process.exit()); // the connections are still open

async function compare(scenario: Scenario, { floor, lock }: ReturnType<Scenario["begin"]>): Promise<Result> {
  const pairs: { floor: number; lock: number }[] = [];
  for (let round = 0; round < warmUps + rounds; round += 1) {
    pairs.push({
      floor: await cyclesPerSecond(scenario, floor, "floor"),
      lock: await cyclesPerSecond(scenario, lock, "lock"),
    });
  }
  const measured = pairs.slice(warmUps);
  return {
    floor: median(measured.map((pair) => pair.floor)),
    lock: median(measured.map((pair) => pair.lock)),
    ratio: median(measured.map((pair) => pair.lock / pair.floor)),
  };
}

async function cyclesPerSecond({ keys, cyclesPerKey }: Scenario, cycle: Cycle, prefix: string): Promise<number> {
  const startedAt = performance.now();
  const loop = async (_: unknown, index: number): Promise<void> => {
    for (let done = 0; done < cyclesPerKey; done += 1) await cycle(`${prefix}-${index}`);
  };
  await Promise.all(Array.from({ length: keys }, loop));
  return (keys * cyclesPerKey * 1_000) / (performance.now() - startedAt);
}

function median(values: readonly number[]): number {
  return values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)] ?? Number.NaN;
}
