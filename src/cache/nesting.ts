/**
 * Tells in whose builds a read is made, so that a build that asks for its own entry is refused instead of waiting for
 * itself. Works where the runtime carries a context along with what is asynchronous, and changes nothing elsewhere.
 *
 * @module
 */
import type { CommandClient } from "../command.ts";
import { failure } from "../errors.ts";
import { type AsyncContext, createAsyncContext } from "../host.ts";
import type { Place } from "./context.ts";

/** A build, and the one that it was called in. */
export interface Nesting {
  readonly client: CommandClient;
  /** Of its entry; empty once it is over, as what goes on after it is not in it. */
  key: string;
  /** None once it is over, or one that schedules the next would hold all before it. */
  outer: Nesting | undefined;
}

// One for all caches, so that they see through each other's builds.
let builds: AsyncContext<Nesting> | undefined;

/** The build that a read is made in, if any. @throws LockError "config" when it is in one of the same entry */
export function outerBuild(client: CommandClient, { name, key }: Place): Nesting | undefined {
  builds ??= createAsyncContext();
  const outer = builds?.getStore();
  for (let build = outer; build; build = build.outer) {
    if (build.client === client && build.key === key) throw failure("config", "get", name, "its own build asks for it");
  }
  return outer;
}

/** Runs a build, so that the reads in it know. */
export function runNested<Given, Value>(nesting: Nesting, build: (given: Given) => Value, given: Given): Value {
  return builds ? builds.run(nesting, build, given) : build(given);
}
