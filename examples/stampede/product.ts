/**
 * What all examples serve: a product that takes long to load, and what a caller is told when there is none to be had.
 *
 * @module
 */
import { isLockError } from "leasehold";

/** A product as the shop has it. */
export interface Product {
  readonly id: string;
  readonly version: number;
}

/** The id in a path such as `/products/1`. */
export function productIn(pathname: string): string | undefined {
  return /^\/products\/([\w-]{1,64})$/.exec(pathname)?.[1];
}

/**
 * Asks the shop, or makes a product up where there is none. Null where there is no such product. The signal aborts when
 * nobody needs the outcome any more.
 */
export async function loadProduct(originUrl: string, id: string, signal: AbortSignal): Promise<Product | null> {
  if (originUrl === "") {
    await new Promise((resolve) => setTimeout(resolve, 300));
    return { id, version: Date.now() };
  }
  const response = await fetch(new URL(`/products/${id}`, originUrl), { signal });
  if (response.ok) return response.json() as Promise<Product>;
  await response.body?.cancel();
  if (response.status === 404) return null;
  throw new Error(`Cannot load product ${id}: the origin answered ${response.status}`);
}

/** The answer to a request that failed. */
export interface Refusal {
  readonly status: 500 | 503;
  readonly headers: Record<string, string>;
  readonly body: { readonly error: string };
}

/** Redis or the shop cannot be had now. A "config" error is a mistake in the deployment: retrying does not help. */
export function refusalOf(error: unknown): Refusal {
  if (!isLockError(error) || error.code === "config") {
    console.error(error);
    return { status: 500, headers: {}, body: { error: "internal" } };
  }
  const seconds = Math.ceil((error.retryAfterMs ?? 1_000) / 1_000);
  return { status: 503, headers: { "retry-after": String(seconds) }, body: { error: error.code } };
}
