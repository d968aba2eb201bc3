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

/** Carries a value along with all that a task starts. */
export interface AsyncContext<T> {
  run<Argument, Result>(value: T, task: (argument: Argument) => Result, argument: Argument): Result;
  getStore(): T | undefined;
}

/** One that is empty at first; undefined where the runtime has none. */
export function createAsyncContext<T>(): AsyncContext<T> | undefined {
  const { process } = globalThis as {
    process?: { getBuiltinModule?(name: string): { AsyncLocalStorage?: new () => AsyncContext<T> } | undefined };
  };
  const Storage = process?.getBuiltinModule?.("async_hooks")?.AsyncLocalStorage; // never an import: not all have it
  return Storage && new Storage();
}
