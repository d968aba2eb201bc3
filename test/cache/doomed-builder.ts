/**
 * A process of its own that builds and never ends, to be killed in the midst of it.
 *
 * @module
 */
import { gate } from "../support/fetch-double.ts";
import { startCommand } from "../support/program.ts";

const program = `
  import { Redis } from "ioredis";
  import { createCache } from "leasehold";
  import { ioredisClient } from "leasehold/ioredis";
  const { PORT, LEASE_MS } = process.env;
  const cache = createCache(ioredisClient(new Redis(Number(PORT), "127.0.0.1")));
  const options = { freshMs: 60_000, leaseMs: Number(LEASE_MS) };
  await cache.get("k", options, () => new Promise(() => process.stdout.write("building")));
`;

/** Starts it on "k"; resolves while it builds, with what kills it. */
export async function startBuilder(
  parts: AsyncDisposableStack,
  { port, leaseMs }: { readonly port: number; readonly leaseMs: number },
): Promise<() => Promise<void>> {
  const env = { PATH: process.env.PATH, PORT: String(port), LEASE_MS: String(leaseMs) };
  const flags = ["--conditions=leasehold-source", "--input-type=module", "--eval", program];
  const building = gate<string>();
  const { child, ended } = startCommand(process.execPath, flags, { env }, building.open);
  const kill = async (): Promise<void> => {
    child.kill("SIGKILL");
    await ended;
  };
  parts.defer(kill);
  const said = await Promise.race([building.promise, ended]);
  if (said !== "building") throw new Error(`Cannot start a builder: ${JSON.stringify(said)}`);
  return kill;
}
