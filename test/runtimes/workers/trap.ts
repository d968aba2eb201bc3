/**
 * Imported first: until `spring` is called, whatever reads a clock, draws a random number, sets a timer or sends a request
 * is written down. Workers refuse some of these at import, and answer others with a value that is wrong for ever.
 *
 * @module
 */
const touched: string[] = [];
const restore: (() => void)[] = [];

function trap(label: string, owner: object, name: string): void {
  const own = Object.getOwnPropertyDescriptor(owner, name);
  const original: unknown = Reflect.get(owner, name);
  if (typeof original !== "function") throw new TypeError(`Cannot trap "${label}" as it is no function`);
  const value = (...args: unknown[]): unknown => {
    touched.push(label);
    return Reflect.apply(original, owner, args);
  };
  Object.defineProperty(owner, name, { configurable: true, writable: true, value });
  restore.push(() => {
    if (own === undefined) Reflect.deleteProperty(owner, name);
    else Object.defineProperty(owner, name, own);
  });
}

trap("Date.now", Date, "now");
trap("performance.now", performance, "now");
trap("Math.random", Math, "random");
trap("crypto.getRandomValues", crypto, "getRandomValues");
trap("crypto.randomUUID", crypto, "randomUUID");
for (const name of ["setTimeout", "setInterval", "queueMicrotask", "fetch"]) trap(name, globalThis, name);

/** Takes the traps away and returns what ran into them. */
export function spring(): readonly string[] {
  for (const undo of restore) undo();
  return touched;
}
