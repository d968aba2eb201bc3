// app/products/[id]/route.ts
import { createCache } from "leasehold";
import { restClient } from "leasehold/rest";

// Else Next answers GET itself, with what it got when it built the site.
export const dynamic = "force-dynamic";

const { UPSTASH_REDIS_REST_URL: url, UPSTASH_REDIS_REST_TOKEN: token } = process.env;
const cache = createCache(restClient({ url, token }));

interface Route {
  readonly params: Promise<{ readonly id: string }>;
}

async function loadProduct(id: string): Promise<{ id: string; cents: number; etag: string }> {
  return { id, cents: 1_999, etag: crypto.randomUUID() }; // from your database
}

export async function GET(_request: Request, { params }: Route): Promise<Response> {
  const { id } = await params;
  return Response.json(await cache.get(`product:${id}`, { freshMs: 60_000 }, () => loadProduct(id)));
}

export async function DELETE(_request: Request, { params }: Route): Promise<Response> {
  const { id } = await params;
  await cache.invalidate(`product:${id}`);
  return new Response(null, { status: 204 });
}
