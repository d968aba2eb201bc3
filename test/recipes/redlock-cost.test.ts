import { createRedlock } from "leasehold";
import { memoryClient } from "leasehold/memory";
import { expect, test } from "vitest";
import { faultyClient } from "../support/faulty-client.ts";
import { textOf } from "../support/text-of.ts";
import { virtualEnvironment } from "../support/virtual-clock.ts";

const page = textOf("docs/redlock.md").replace(/ +/g, " ");

test.each([3, 5])("a Redlock on %s nodes sends as many requests as the page says", async (n) => {
  const env = virtualEnvironment();
  const clients = Array.from({ length: n }, () => faultyClient(memoryClient({}, env), env.clock));
  const lock = createRedlock(clients, {}, env);
  const count = async (run: () => Promise<unknown>): Promise<number> => {
    const before = clients.flatMap(({ sent }) => sent).length;
    await env.clock.until(run());
    await env.clock.advance(1_000); // what is cleaned up behind
    return clients.flatMap(({ sent }) => sent).length - before;
  };
  const acquire = await count(async () => lock.acquire("b"));
  const lease = await lock.acquire("a");
  const extend = await count(() => lease.extend());
  const contended = await count(() => lock.tryAcquire("a"));
  const release = await count(() => lease.release());
  const share = (requests: number): string => `${requests / n === 1 ? "" : requests / n}N`;
  expect(page).toContain(`| acquire | ${share(acquire)} |`);
  expect(page).toContain(`| extend, renew | ${share(extend)} |`);
  expect(page).toContain(`| a try while another holds it | ${share(contended)} |`);
  expect(page).toContain(`| release | ${share(release)} |`);
});
