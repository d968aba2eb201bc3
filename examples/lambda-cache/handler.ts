/**
 * An AWS Lambda function behind a function URL, in front of a slow shop: however many environments ask for a product at
 * once, one of them rebuilds it.
 *
 * Run: `npm run start:lambda` (a demonstration that ends by itself). To deploy it see README.md beside this file.
 *
 * @module
 */
import { Hono } from "hono";
import { handle, type LambdaContext } from "hono/aws-lambda";
import { createCache } from "leasehold";
import { restClient } from "leasehold/rest";
import { loadProduct, refusalOf } from "../stampede/product.ts";

const { UPSTASH_REDIS_REST_URL: url, UPSTASH_REDIS_REST_TOKEN: token, ORIGIN_URL: originUrl = "" } = process.env;

// These may outlive a freeze, as they hold settings only: no connection, no lease, no timer, no promise. There is no
// waitUntil either: what is not done when the response is given goes on after the thaw, or never.
const cache = createCache(restClient({ url, token }));

const app: Hono<{ Bindings: { lambdaContext: LambdaContext } }> = new Hono();
const productPath = "/products/:id{[\\w-]{1,64}}";

app.get(productPath, async (c) => {
  const id = c.req.param("id");
  const leftMs = workMs(c.env.lambdaContext);
  // When its time is up Lambda ends the invocation, build and all. So a build that takes longer is given up, and its lease
  // with it, while there is time to say so; and so is the wait for another's.
  const options = { freshMs: 60_000, leaseMs: leftMs, maxHoldMs: leftMs, waitMs: leftMs };
  const entry = await cache.getEntry(`product:${id}`, options, ({ signal }) => loadProduct(originUrl, id, signal));
  c.header("x-cache", entry.status);
  c.header("x-cache-requests", String(entry.requests));
  // "No such product" is a value like any other, so asking for it does not reach the origin again and again.
  return entry.value === null ? c.json({ error: "no such product" }, 404) : c.json(entry.value);
});

// Whoever may invoke the function may call this: the template asks for AWS_IAM.
app.delete(productPath, async (c) => {
  await cache.invalidate(`product:${c.req.param("id")}`);
  return c.body(null, 204);
});

app.get("/health", (c) => c.json({ ok: true }));

app.onError((error, c) => {
  const { status, headers, body } = refusalOf(error);
  return c.json(body, status, headers);
});

/** How long this invocation may still work, in ms: its remaining time, less what the answer itself takes. */
function workMs(context: LambdaContext): number {
  const [answerMs, shortestMs, longestMs] = [500, 100, 10_000];
  return Math.max(shortestMs, Math.min(longestMs, context.getRemainingTimeInMillis() - answerMs));
}

/** What Lambda calls. */
export const handler: ReturnType<typeof handle> = handle(app);
