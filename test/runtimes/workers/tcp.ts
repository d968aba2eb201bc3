/**
 * A Worker that reaches Redis over TCP by node-redis, with a connection for each request; or, as it must not, with one for all.
 *
 * @module
 */
import { createLock, isLockError } from "leasehold";
import { nodeRedisClient } from "leasehold/node-redis";
import { createClient } from "redis";

interface Env {
  readonly REDIS_URL: string;
}

let shared: ReturnType<typeof connect> | undefined;

async function connect({ REDIS_URL: url }: Env) {
  const redis = createClient({ url, socket: { reconnectStrategy: false } });
  redis.on("error", () => {});
  return redis.connect();
}

const worker = {
  async fetch(request: Request, env: Env): Promise<Response> {
    const { pathname, searchParams } = new URL(request.url);
    const own = pathname === "/own";
    if (!own) shared ??= connect(env);
    const redis = await (own ? connect(env) : shared);
    if (redis === undefined) return new Response(null, { status: 500 });
    const lock = createLock(nodeRedisClient(redis), { waitMs: own ? 10_000 : 1_000 });
    try {
      return Response.json(await lock.withLock(searchParams.get("name") ?? "", (lease) => lease.fence));
    } catch (error) {
      return Response.json(isLockError(error) ? error.code : String(error));
    } finally {
      if (own) redis.destroy();
    }
  },
};

export default worker;
