/**
 * EVAL: runs the TypeScript twin of a script of this package. There is no Lua here.
 *
 * @module
 */
import { type Reply, ReplyError } from "../../src/command.ts";
import { acquireScript } from "../../src/scripts/acquire.ts";
import { commitScript } from "../../src/scripts/commit.ts";
import { electScript } from "../../src/scripts/elect.ts";
import { extendScript } from "../../src/scripts/extend.ts";
import { fencedSetScript } from "../../src/scripts/fenced-set.ts";
import { inspectScript } from "../../src/scripts/inspect.ts";
import { invalidateScript } from "../../src/scripts/invalidate.ts";
import { proposeScript } from "../../src/scripts/propose.ts";
import { releaseScript } from "../../src/scripts/release.ts";
import { tendScript } from "../../src/scripts/tend.ts";
import { integer } from "./arguments.ts";
import * as cache from "./cache-twins.ts";
import type { Keyspace } from "./keyspace.ts";
import * as lock from "./lock-twins.ts";
import type { Twin } from "./twin.ts";

const twins = new Map<string, Twin>([
  [acquireScript.source, lock.acquire],
  [proposeScript.source, lock.propose],
  [releaseScript.source, lock.release],
  [extendScript.source, lock.extend],
  [inspectScript.source, lock.inspect],
  [fencedSetScript.source, lock.fencedSet],
  [electScript.source, cache.elect],
  [commitScript.source, cache.commit],
  [tendScript.source, cache.tend],
  [invalidateScript.source, cache.invalidate],
]);

/** Runs the twin of a source, known by its whole text behind any header line. @throws ReplyError */
export function evaluate(redis: Keyspace, source: string, count: string, ...keysAndArgs: string[]): Reply {
  const keys = integer(count);
  if (keys > keysAndArgs.length) throw new ReplyError("ERR Number of keys can't be greater than number of args");
  if (keys < 0) throw new ReplyError("ERR Number of keys can't be negative");
  const twin = twins.get(source.replace(/^#!.*\n/, ""));
  if (twin === undefined) {
    throw new ReplyError("ERR Cannot run this script as the memory client runs only those of its own package");
  }
  return twin(redis, ...keysAndArgs);
}
