/**
 * Shows what the Worker does with a stampede, in workerd before a real Redis.
 *
 * Run: `npm start`, or `npm run dev` to keep it serving until Ctrl-C.
 *
 * @module
 */
import { demonstrate } from "../stampede/demonstration.ts";
import { startWorker } from "./workerd.ts";

await demonstrate({
  title: "Worker: workerd",
  readers: 200,
  speaks: "http",
  async start(parts, { redis, origin, directory, verbose }) {
    const vars = {
      UPSTASH_REDIS_REST_URL: redis.url,
      UPSTASH_REDIS_REST_TOKEN: redis.token,
      ORIGIN_URL: origin.url,
    };
    return [await startWorker(parts, { directory, vars, verbose })];
  },
});
