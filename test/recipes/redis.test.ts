import { fencedSet } from "leasehold";
import { memoryClient } from "leasehold/memory";
import { describe } from "vitest";
import { virtualEnvironment } from "../support/virtual-clock.ts";
import { refusesLateWrites } from "./late-writes.ts";

describe("a value in Redis", () => {
  refusesLateWrites(async () => {
    const env = virtualEnvironment();
    const client = memoryClient({}, env);
    const key = "report";
    const read = async (): Promise<string | undefined> => (await client.execute(["GET", key]))?.toString();
    return {
      // fencedSet always writes, so its touch writes again what is there. Nobody else's write comes between here.
      claim: async (fence) => fencedSet(client, { key, value: (await read()) ?? "", fence }, env),
      write: (fence, value) => fencedSet(client, { key, value, fence }, env),
      read,
    };
  });
});
