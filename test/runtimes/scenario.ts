/**
 * One scenario over REST, run as it stands by Node, Deno and Bun: `<runtime> scenario.ts <url> <token> <name>`. Prints
 * what it saw as JSON, and leaves a lease behind that must not keep the process alive.
 *
 * @module
 */
import { restClient } from "../../adapters/rest.ts";
import { createLock, isLockError } from "../../src/index.ts";

const [url, token, name = ""] = process.argv.slice(2);
const events: string[] = [];
const lock = createLock(restClient({ url, token }), { observe: ({ type }) => events.push(type) });

/** The code of the error that the promise rejects with. */
async function codeOf(promise: Promise<unknown>): Promise<string> {
  try {
    await promise;
    return "no error";
  } catch (error) {
    return isLockError(error) ? error.code : String(error);
  }
}

async function cycle(): Promise<unknown> {
  const lease = await lock.acquire(name);
  const contended = await codeOf(lock.acquire(name, { waitMs: 0 }));
  const timedOut = await codeOf(lock.acquire(name, { waitMs: 100 }));
  const aborted = await codeOf(lock.acquire(name, { signal: AbortSignal.timeout(50) }));
  const refused = await lock.tryAcquire(name);
  await lease.extend(20_000);
  const extended = lease.remaining() > 10_000;
  const outcomes = [await lease.release(), await lease.release()];
  const lost = await codeOf(lease.extend());
  return { contended, timedOut, aborted, refused, extended, outcomes, lost };
}

async function disposal(): Promise<unknown> {
  let fence: number;
  {
    await using lease = await lock.acquire(name);
    fence = lease.fence;
  }
  await using next = await lock.acquire(name, { waitMs: 0 });
  return { growing: next.fence > fence };
}

/** Twenty at once for one name: they take turns, and never two at a time. */
async function contention(): Promise<unknown> {
  let inside = 0;
  let most = 0;
  let total = 0;
  const task = async (): Promise<void> => {
    inside += 1;
    most = Math.max(most, inside);
    const before = total;
    await new Promise((resolve) => setTimeout(resolve, 1));
    total = before + 1;
    inside -= 1;
  };
  await Promise.all(Array.from({ length: 20 }, () => lock.withLock(name, { waitMs: 60_000 }, task)));
  return { most, total };
}

async function renewal(): Promise<unknown> {
  const renewed = (): number => events.filter((type) => type === "renewed").length;
  return lock.withLock(name, { leaseMs: 1_000 }, async (lease) => {
    while (renewed() < 2 && lease.remaining() > 0) await new Promise((resolve) => setTimeout(resolve, 10));
    return { renewed: renewed() >= 2, held: lease.remaining() > 0 };
  });
}

const seen = {
  cycle: await cycle(),
  disposal: await disposal(),
  contention: await contention(),
  renewal: await renewal(),
};
await lock.acquire(`${name}:left-behind`, { leaseMs: 3_600_000 });
console.log(JSON.stringify(seen));
