/**
 * Shows what the Lambda function does with a stampede, in eight environments that are frozen between their invocations.
 *
 * Run: `npm run start:lambda`, or `npm run start:lambda -- --serve` to keep it serving until Ctrl-C.
 *
 * @module
 */
import { demonstrate } from "../stampede/demonstration.ts";
import { bundle } from "./environment.ts";
import { startFunction } from "./function-url.ts";

const environments = 8;

await demonstrate({
  title: `Function: ${environments} environments of aws-lambda-ric`,
  readers: 80,
  speaks: "http",
  async start(parts, { redis, origin, directory, verbose }) {
    await bundle(new URL("handler.ts", import.meta.url), directory);
    const variables = {
      UPSTASH_REDIS_REST_URL: redis.url,
      UPSTASH_REDIS_REST_TOKEN: redis.token,
      ORIGIN_URL: origin.url,
    };
    return [await startFunction(parts, { taskRoot: directory, variables, timeoutMs: 15_000, verbose }, environments)];
  },
});
