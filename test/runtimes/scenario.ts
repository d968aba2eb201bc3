/**
 * One scenario over REST, run as it stands by every runtime, from the sources and from the built package. It gives what it
 * saw as plain data: `expected` is what that must be.
 *
 * @module
 */
import {
  createCache,
  createLock,
  createRedlock,
  fencedSet,
  isLockError,
  type LeaseholdEvent,
  type Lock,
  type LockOptions,
} from "leasehold";
import { restClient } from "leasehold/rest";

/** What a scenario needs: three independent masters, and names of its own. */
export interface Stage {
  readonly urls: readonly [string, string, string];
  readonly token: string;
  readonly name: string;
}

const pause = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));

/** The code of the error that the promise rejects with. */
async function codeOf(promise: Promise<unknown>): Promise<string> {
  try {
    await promise;
    return "no error";
  } catch (error) {
    return isLockError(error) ? error.code : String(error);
  }
}

/** A lock from its acquisition to its end, and all that refuses it meanwhile. */
export async function cycle(lock: Lock, name: string): Promise<unknown> {
  const lease = await lock.acquire(name);
  const contended = await codeOf(lock.acquire(name, { waitMs: 0 }));
  const timedOut = await codeOf(lock.acquire(name, { waitMs: 100 }));
  const aborted = await codeOf(lock.acquire(name, { signal: AbortSignal.timeout(50) }));
  const refused = await lock.tryAcquire(name);
  await lease.extend(20_000);
  const extended = lease.remaining() > 10_000;
  const outcomes = [await lease.release(), await lease.release()];
  const lost = await codeOf(lease.extend());
  const next = await lock.acquire(name);
  const growing = next.fence > lease.fence;
  if ("asyncDispose" in Symbol) await Reflect.get(next, Symbol.asyncDispose)();
  const disposed = "asyncDispose" in Symbol ? await next.release() : await next.release().then(() => next.release());
  return { contended, timedOut, aborted, refused, extended, outcomes, lost, growing, disposed };
}

/** Twenty at once for one name: they take turns, and never two at a time. */
async function contention(lock: Lock, name: string): Promise<unknown> {
  let inside = 0;
  let most = 0;
  let total = 0;
  const task = async (): Promise<void> => {
    inside += 1;
    most = Math.max(most, inside);
    const before = total;
    await pause(1);
    total = before + 1;
    inside -= 1;
  };
  await Promise.all(Array.from({ length: 20 }, () => lock.withLock(name, { waitMs: 60_000 }, task)));
  return { most, total };
}

async function renewal(lockWith: (options: LockOptions) => Lock, name: string): Promise<unknown> {
  const events: LeaseholdEvent[] = [];
  const renewals = (): number => events.filter(({ type }) => type === "renewed").length;
  const lock = lockWith({ leaseMs: 3_000, observe: (event) => void events.push(event) });
  return lock.withLock(name, async (lease) => {
    while (renewals() < 2 && lease.remaining() > 0) await pause(10);
    return { twice: renewals() >= 2, held: lease.remaining() > 0, aborted: lease.signal.aborted };
  });
}

/** A lease that nobody renews ends by itself, and the writes of its holder are refused once another has written. */
async function loss({ urls: [url], token, name }: Stage, lock: Lock): Promise<unknown> {
  const client = restClient({ url, token });
  const key = `{${name}}:guarded`;
  const lost = await lock.acquire(name, { leaseMs: 1_000 });
  let reason: unknown;
  lost.signal.addEventListener("abort", () => {
    reason = lost.signal.reason;
  });
  while (reason === undefined) await pause(10); // the wait for a deadline alone keeps no process alive
  const next = await lock.acquire(name);
  const written = await fencedSet(client, { key, value: "new", fence: next.fence });
  const overwritten = await fencedSet(client, { key, value: "old", fence: lost.fence });
  await next.release();
  return {
    reason: isLockError(reason, "lost") && reason.lostBy,
    remaining: lost.remaining(),
    release: await lost.release(),
    written,
    overwritten,
  };
}

/** A quorum of three, and of three one of which is not there. */
async function redlock({ urls, token, name }: Stage): Promise<unknown> {
  const nodes = urls.map((url) => restClient({ url, token }));
  const all = createRedlock(nodes);
  const first = await all.acquire(name);
  const contended = await codeOf(createRedlock(nodes).acquire(name, { waitMs: 0 }));
  const released = await first.release();
  const nowhere = restClient({ url: "http://127.0.0.1:1", token });
  const crippled = createRedlock([...nodes.slice(0, 2), nowhere]);
  const second = await crippled.acquire(name);
  const result = { contended, released, growing: second.fence > first.fence, held: second.remaining() > 0 };
  await second.release().catch(() => second.release()); // where the machine is busy the answers may come too late
  return result;
}

/** Twenty readers of a cold key, and an invalidation in the middle of the next build. */
async function stampede({ urls: [url], token, name }: Stage): Promise<unknown> {
  const cache = createCache(restClient({ url, token }));
  let builds = 0;
  let requests = 0;
  const read = async (): Promise<number> => {
    const entry = await cache.getEntry(name, { freshMs: 60_000 }, async () => {
      const build = ++builds;
      await pause(100);
      return build;
    });
    requests += entry.requests;
    return entry.value;
  };
  const cold = new Set(await Promise.all(Array.from({ length: 20 }, read)));
  const shared = requests === 2; // an election and a commit for all 20
  await cache.invalidate(name);
  const overtaken = read();
  while (builds < 2) await pause(1);
  await cache.invalidate(name);
  const fresh = await read();
  await overtaken;
  return { cold: [...cold], shared, fresh, again: await read(), builds };
}

/** A build that asks for its own key. */
async function reentry({ urls: [url], token, name }: Stage): Promise<unknown> {
  const cache = createCache(restClient({ url, token }));
  const options = { freshMs: 60_000, waitMs: 300 };
  const read = cache.get(name, options, () => cache.get(name, options, () => 1));
  return codeOf(read.catch((error: Error) => Promise.reject(error.cause)));
}

/** The caller's signal reaches the task; the lock is free afterwards. */
async function abort(lock: Lock, name: string): Promise<unknown> {
  const controller = new AbortController();
  const reason = await lock.withLock(name, { signal: controller.signal }, async (lease) => {
    controller.abort(new Error("the caller left"));
    return String(lease.signal.reason);
  });
  const next = await lock.tryAcquire(name);
  return { reason, freeAfterwards: await next?.release() };
}

/** Runs it all. A lease is left behind that must not keep the process alive. */
export async function runScenario(stage: Stage): Promise<unknown> {
  const { urls, token, name } = stage;
  const client = restClient({ url: urls[0], token });
  const lock = createLock(client);
  const [seenCycle, seenContention, seenRenewal, seenLoss, seenRedlock, seenStampede, seenReentry, seenAbort] =
    await Promise.all([
      cycle(lock, `${name}:cycle`),
      contention(lock, `${name}:contention`),
      renewal((options) => createLock(client, options), `${name}:renewal`),
      loss({ ...stage, name: `${name}:loss` }, lock),
      redlock({ ...stage, name: `${name}:redlock` }),
      stampede({ ...stage, name: `${name}:stampede` }),
      reentry({ ...stage, name: `${name}:reentry` }),
      abort(lock, `${name}:abort`),
    ]);
  await lock.acquire(`${name}:left-behind`, { leaseMs: 3_600_000 });
  return {
    cycle: seenCycle,
    contention: seenContention,
    renewal: seenRenewal,
    loss: seenLoss,
    redlock: seenRedlock,
    stampede: seenStampede,
    reentry: seenReentry,
    abort: seenAbort,
  };
}

type Step = "cycle" | "contention" | "renewal" | "loss" | "redlock" | "stampede" | "reentry" | "abort";

/** What every runtime must have seen. */
export const expected: Record<Step, unknown> = {
  cycle: {
    contended: "contended",
    timedOut: "timeout",
    aborted: "aborted",
    refused: null,
    extended: true,
    outcomes: ["released", "already-released"],
    lost: "lost",
    growing: true,
    disposed: "already-released",
  },
  contention: { most: 1, total: 20 },
  renewal: { twice: true, held: true, aborted: false },
  loss: { reason: "expired", remaining: 0, release: "expired", written: true, overwritten: false },
  redlock: { contended: "contended", released: "released", growing: true, held: true },
  stampede: { cold: [1], shared: true, fresh: 3, again: 3, builds: 3 },
  reentry: "config", // "timeout" where the runtime cannot tell
  abort: { reason: "Error: the caller left", freeAfterwards: "released" },
};
