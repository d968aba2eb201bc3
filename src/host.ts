/**
 * The only file that knows a runtime by name. Nothing is read at import.
 *
 * @module
 */

/** What the algorithms must know of where they run. */
export interface Host {
  /** True on Cloudflare Workers: no promise, socket or pending batch of one request may be touched by another. */
  readonly isolatesRequests: boolean;
}

/** The runtime this code runs in. */
export function currentHost(): Host {
  const { navigator } = globalThis as { navigator?: { userAgent?: string } };
  return { isolatesRequests: navigator?.userAgent === "Cloudflare-Workers" };
}
