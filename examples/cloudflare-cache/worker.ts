/**
 * A Cloudflare Worker in front of a slow shop: however many ask for a product at once, one of them rebuilds it.
 *
 * Run it with `npm start` (a demonstration that ends by itself), `npm run dev`, or `npx wrangler deploy`.
 *
 * @module
 */
import { Hono } from "hono";
import { html } from "hono/html";
import { type Cache, type CommandClient, createCache } from "leasehold";
import { restClient } from "leasehold/rest";
import { loadProduct, refusalOf } from "../stampede/product.ts";
import { lifetimes, warmUp } from "./warm-up.ts";

interface Env {
  /** Secrets: `npx wrangler secret put UPSTASH_REDIS_REST_URL`, and the same for the token. */
  readonly UPSTASH_REDIS_REST_URL: string;
  readonly UPSTASH_REDIS_REST_TOKEN: string;
  /** Where the products are; while it is empty the Worker makes them up. */
  readonly ORIGIN_URL: string;
  /** Ids of the products that the cron keeps built, with blanks between them. */
  readonly POPULAR_IDS: string;
}

/** What answers requests. */
export const app: Hono<{ Bindings: Env }> = new Hono<{ Bindings: Env }>();

const productPath = "/products/:id{[\\w-]{1,64}}";

app.get(productPath, async (c) => {
  const id = c.req.param("id");
  const waitUntil = (work: Promise<unknown>): void => c.executionCtx.waitUntil(work);
  // With waitUntil a rebuild goes on behind the response: whoever finds an old value has it at once, and those who wait
  // for a rebuild get theirs, though the request that began it is over.
  const entry = await cacheOf(c.env).getEntry(`product:${id}`, { ...lifetimes, waitUntil }, ({ signal }) =>
    loadProduct(c.env.ORIGIN_URL, id, signal),
  );
  c.header("x-cache", entry.status);
  c.header("x-cache-fence", String(entry.fence));
  c.header("x-cache-requests", String(entry.requests));
  // "No such product" is a value like any other, so asking for it does not reach the origin again and again.
  return entry.value === null ? c.json({ error: "no such product" }, 404) : c.json(entry.value);
});

// Anyone may call this here; in your own Worker put authentication in front of it.
app.delete(productPath, async (c) => {
  await cacheOf(c.env).invalidate(`product:${c.req.param("id")}`);
  return c.body(null, 204);
});

app.get("/", (c) =>
  c.html(html`<!doctype html>
<html lang="en">
<meta charset="utf-8">
<title>leasehold: a guarded cache</title>
<h1>A guarded cache</h1>
<p>A product takes 300 ms to build. However many ask at once, one request builds it and the others get its value;
<code>DELETE</code> throws it away, and a build that was under way then is never stored.</p>
<ul>
<li><a href="/products/1">GET /products/1</a>: see the headers <code>x-cache</code>, <code>x-cache-fence</code> and
<code>x-cache-requests</code>
<li><code>curl -X DELETE ${new URL("/products/1", c.req.url).href}</code>
</ul>`),
);

app.onError((error, c) => {
  const { status, headers, body } = refusalOf(error);
  return c.json(body, status, headers);
});

// Whether this Worker can do its work: one command to Redis, and a second for it.
app.get("/health", async (c) => {
  const ping = clientOf(c.env).execute(["PING"], { signal: AbortSignal.timeout(1_000) });
  const ok = await ping.then(
    () => true,
    () => false,
  );
  return c.json({ ok }, ok ? 200 : 503);
});

/** Made for each request, as is the cache: they hold settings only, and send nothing yet. */
function clientOf({ UPSTASH_REDIS_REST_URL: url, UPSTASH_REDIS_REST_TOKEN: token }: Env): CommandClient {
  return restClient({ url, token });
}

function cacheOf(env: Env): Cache {
  return createCache(clientOf(env));
}

/** What Cloudflare calls: for each request, and at the times that wrangler.toml gives. */
const worker: { fetch: typeof app.fetch; scheduled(controller: unknown, env: Env): Promise<void> } = {
  fetch: app.fetch,
  async scheduled(_controller: unknown, env: Env): Promise<void> {
    const ran = await warmUp(clientOf(env), env.ORIGIN_URL, env.POPULAR_IDS.split(" ").filter(Boolean));
    console.log(ran ? "warmed up" : "another run is warming up");
  },
};

export default worker;
