/** Calls it as a caller without types could. */
export function loosely<Result>(call: (...args: never[]) => Result, ...args: unknown[]): Result {
  return Reflect.apply(call, undefined, args);
}
