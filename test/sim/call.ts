/** What a command asks for: which script of the package, on which keys, for which token. */
import type { Command } from "../../src/command.ts";
import { acquireScript } from "../../src/scripts/acquire.ts";
import { commitScript } from "../../src/scripts/commit.ts";
import { electScript } from "../../src/scripts/elect.ts";
import { extendScript } from "../../src/scripts/extend.ts";
import { invalidateScript } from "../../src/scripts/invalidate.ts";
import { proposeScript } from "../../src/scripts/propose.ts";
import { releaseScript } from "../../src/scripts/release.ts";
import { tendScript } from "../../src/scripts/tend.ts";

export interface Call {
  readonly verb: string;
  /** The lock's key or the entry's. */
  readonly key: string;
  /** The first argument: the token, or for "invalidate" its mode. */
  readonly token: string;
  readonly args: readonly string[];
  readonly command: Command;
}

const verbs: ReadonlyMap<string, string> = new Map([
  [acquireScript.source, "acquire"],
  [proposeScript.source, "acquire"],
  [extendScript.source, "extend"],
  [releaseScript.source, "release"],
  [electScript.source, "elect"],
  [commitScript.source, "commit"],
  [tendScript.source, "tend"],
  [invalidateScript.source, "invalidate"],
]);

export function callOf(command: Command): Call {
  const [name, source, count, ...rest] = command.map(String);
  const verb = name === "EVAL" ? verbs.get(source ?? "") : undefined;
  if (verb === undefined) throw new Error(`Cannot tell what ${name} is for`);
  const keys = Number(count);
  const args = rest.slice(keys);
  return { verb, key: rest[0] ?? "", token: args[0] ?? "", args, command };
}
