/** A Worker that holds Redlocks over the REST servers it is bound to. Its lock is shared by all requests. */
import { createRedlock, isLockError, type Lock } from "leasehold";
import { restClient } from "leasehold/rest";

interface Bindings {
  readonly URLS: string;
  readonly TOKEN: string;
}

interface Context {
  waitUntil(work: Promise<unknown>): void;
}

let shared: Lock | undefined;

async function answer(path: string, name: string, { URLS, TOKEN }: Bindings, context: Context): Promise<unknown> {
  const clients = (): ReturnType<typeof restClient>[] =>
    URLS.split(" ").map((url) => restClient({ url, token: TOKEN }));
  if (path === "/six") {
    const [first] = clients();
    if (!first) throw new Error("no URLS");
    return createRedlock([...clients(), { ...first }]).acquire(name);
  }
  shared ??= createRedlock(clients(), { leaseMs: 10_000, waitMs: 20_000 });
  const waitUntil = (work: Promise<unknown>): void => context.waitUntil(work);
  const lock = shared;
  if (path === "/try") {
    return (await answered(() => lock.tryAcquire(name, { waitUntil }))) === null ? "held" : "free";
  }
  return lock.withLock(name, { waitUntil }, async (lease) => {
    const left = lease.remaining();
    await answered(() => lease.extend(20_000));
    return { fence: lease.fence, longer: lease.remaining() > left };
  });
}

/** On a machine that is busy with other tests all nodes may be as slow as a silent one, for some tries. */
async function answered<T>(call: () => Promise<T>): Promise<T> {
  for (let tries = 1; tries < 10; tries += 1) {
    try {
      return await call();
    } catch (error) {
      if (!isLockError(error, "unavailable")) throw error;
    }
  }
  return call();
}

export default {
  async fetch(request: Request, bindings: Bindings, context: Context): Promise<Response> {
    const { pathname, searchParams } = new URL(request.url);
    try {
      return Response.json(await answer(pathname, searchParams.get("name") ?? "", bindings, context));
    } catch (error) {
      return Response.json({ error: String(error), code: isLockError(error) ? error.code : "none" }, { status: 500 });
    }
  },
};
