import { createLock } from "leasehold";
import { memoryClient } from "leasehold/memory";
import { expect, test } from "vitest";
import { faultyClient } from "../support/faulty-client.ts";
import { textOf } from "../support/text-of.ts";
import { virtualEnvironment } from "../support/virtual-clock.ts";
import { leaseTable, leftMs, typicalTrip } from "./lease-table.ts";

/** The table in the page that begins with this cell, one string a row. */
function tableIn(text: string, firstCell: string): string[] {
  const rows = text.split("\n").map((line) => line.replace(/ +/g, " ").replace(/-{3,}/g, "---"));
  const start = rows.findIndex((row) => row.startsWith(`| ${firstCell} |`));
  const end = rows.findIndex((row, index) => index > start && !row.startsWith("|"));
  return rows.slice(start, end);
}

test.each(["docs/redlock.md", "README.md"])("%s has the table of leases that validity.ts computes", (path) => {
  expect(tableIn(textOf(path), "round trip")).toEqual(leaseTable());
});

test.each([1, 20, 80, 300])("a holder has what the table says at a round trip of %s ms", async (ms) => {
  const env = virtualEnvironment();
  // Each is 30 % off the mean; the last is as slow as is still usual.
  const share = (place: number): number => (place === 200 ? 2.2 : place % 4 < 2 ? 0.7 : 1.3);
  const client = faultyClient(memoryClient({}, env), env.clock, (_, place) => ({ replyMs: ms * share(place) }));
  const lock = createLock(client, { leaseMs: 10_000 }, env);
  const cycle = async (): Promise<number> => {
    const lease = await env.clock.until(lock.acquire("invoice:42"));
    const left = lease.remaining();
    await env.clock.until(lease.release());
    return left;
  };
  for (let cycles = 0; cycles < 100; cycles += 1) await cycle();
  const left = await cycle();
  const table = leftMs(typicalTrip(ms), 10_000);
  // What the slow answer itself adds to the estimate is not in the table.
  expect(left).toBeGreaterThan(table - 2 * ms);
  expect(left).toBeLessThan(table + 2 * ms + 2);
});
