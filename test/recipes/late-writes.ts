/** What every fenced resource must do with the late write of a paused holder, written once. */
import { createLock } from "leasehold";
import { memoryClient } from "leasehold/memory";
import { expect, test } from "vitest";
import type { Lease } from "../../src/lease.ts";
import { virtualEnvironment } from "../support/virtual-clock.ts";

/** A resource that checks fences, by one of the recipes. */
export interface FencedResource {
  /** The fenced touch. */
  claim(fence: number): Promise<boolean>;
  write(fence: number, value: string): Promise<boolean>;
  read(): Promise<string | undefined>;
}

/** How the first holder came to be one of the past. */
type End = "its lease ran out while it was paused" | "Redis forgot its lease, which it cannot know";

/** Two holders of one lock, one after the other; the first has not released it. */
async function twoHolders(end: End): Promise<{ readonly first: Lease; readonly second: Lease }> {
  const env = virtualEnvironment();
  const client = memoryClient({}, env);
  const lock = createLock(client, { leaseMs: 5_000 }, env);
  const first = await lock.acquire("invoice:42");
  if (end === "its lease ran out while it was paused") {
    env.clock.freeze(6_000);
    expect(first.remaining()).toBe(0);
  } else {
    await client.execute(["DEL", first.key]);
    expect(first.remaining()).toBeGreaterThan(0);
  }
  const second = await lock.acquire("invoice:42");
  expect(second.fence).toBeGreaterThan(first.fence);
  return { first, second };
}

/** Declares the tests. `open` makes a resource that nobody has written to. */
export function refusesLateWrites(open: () => Promise<FencedResource>): void {
  test.each<End>(["its lease ran out while it was paused", "Redis forgot its lease, which it cannot know"])(
    "a late write is refused once a newer holder has written: %s",
    async (end) => {
      const resource = await open();
      const { first, second } = await twoHolders(end);
      expect(await resource.write(first.fence, "begun")).toBe(true);
      expect(await resource.write(second.fence, "paid")).toBe(true);
      expect(await resource.write(first.fence, "late")).toBe(false);
      expect(await resource.claim(first.fence)).toBe(false);
      expect(await resource.read()).toBe("paid");
    },
  );

  test("one holder writes as often as it likes", async () => {
    const resource = await open();
    const { second } = await twoHolders("its lease ran out while it was paused");
    for (const value of ["begun", "paid", "paid", "sent"]) {
      expect(await resource.write(second.fence, value)).toBe(true);
      expect(await resource.read()).toBe(value);
    }
  });

  test("a late write lands as long as the new holder has only read", async () => {
    const resource = await open();
    const { first, second } = await twoHolders("its lease ran out while it was paused");
    expect(await resource.write(first.fence, "10")).toBe(true);
    const read = Number(await resource.read());
    expect(await resource.write(first.fence, "20")).toBe(true); // the new holder's sum will not have it
    expect(await resource.write(second.fence, String(read + 1))).toBe(true);
    expect(await resource.read()).toBe("11");
  });

  test("a touch before the read refuses it, and leaves the value as it was", async () => {
    const resource = await open();
    const { first, second } = await twoHolders("its lease ran out while it was paused");
    expect(await resource.write(first.fence, "10")).toBe(true);
    expect(await resource.claim(second.fence)).toBe(true);
    expect(await resource.read()).toBe("10");
    expect(await resource.write(first.fence, "20")).toBe(false);
    expect(await resource.write(second.fence, "11")).toBe(true);
    expect(await resource.read()).toBe("11");
  });

  test("of holders that write at once the newest prevails, whatever the order", async () => {
    const resource = await open();
    const fences = [3, 5, 1, 4, 2];
    const written = await Promise.all(fences.map((fence) => resource.write(fence, `by ${fence}`)));
    expect(written[fences.indexOf(5)]).toBe(true);
    expect(await resource.read()).toBe("by 5");
  });
}
