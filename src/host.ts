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

interface Globals {
  readonly navigator?: { readonly userAgent?: string };
  readonly Deno?: { readonly unrefTimer?: (id: number) => void };
}

/** The runtime this code runs in. */
export function currentHost(): Host {
  const { navigator } = globalThis as Globals;
  return { isolatesRequests: navigator?.userAgent === "Cloudflare-Workers" };
}

/**
 * Lets the process end although the timer is pending, where the runtime can. A timer is an object with `unref` on Node,
 * Bun and newer Workers, a number on older Deno and Workers.
 */
export function unrefTimer(timer: unknown): void {
  if (typeof timer === "number") (globalThis as Globals).Deno?.unrefTimer?.(timer);
  else if (typeof timer === "object" && timer !== null && "unref" in timer && typeof timer.unref === "function")
    timer.unref();
}
