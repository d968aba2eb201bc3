/**
 * The REST tokens, which a command line never holds: from files or variables.
 *
 * @module
 */
import { readFileSync } from "node:fs";
import type { Values } from "./arguments.ts";
import { UsageError } from "./exit.ts";

/** The tokens, one for each REST node: from files or variables, one for all or one for each, in their order. */
export function tokensOf(values: Values, count: number): string[] {
  const { "token-file": files = [], "token-env": variables = [] } = values;
  if (files.length > 0 && variables.length > 0) {
    throw new UsageError("Cannot take tokens from both files and variables: give --token-file or --token-env");
  }
  const option = files.length > 0 ? "--token-file" : "--token-env";
  const names = files.length > 0 ? files : variables.length > 0 ? variables : ["UPSTASH_REDIS_REST_TOKEN"];
  if (names.length !== 1 && names.length !== count) {
    throw new UsageError(
      `Cannot use ${names.length} of ${option} for ${count} REST nodes: give one for all, or one for each`,
    );
  }
  if (count === 0) return [];
  const tokens = names.map((name, index) =>
    files.length > 0 ? readToken(name, index + 1) : (process.env[name] ?? "").trim(),
  );
  const missing = names[tokens.indexOf("")];
  if (missing !== undefined) {
    // By mistake it may be the token itself, which looks otherwise.
    const which = files.length === 0 && /^[A-Z][A-Z0-9_]*$/.test(missing) ? missing : `what ${option} names`;
    const advice = "set it, or name another with --token-env or a file with --token-file";
    throw new UsageError(`Cannot go on without a token as ${which} is empty: ${advice}`);
  }
  return Array.from({ length: count }, (_, index) => tokens[index] ?? tokens[0] ?? "");
}

/** Its path is not repeated: it may be the token itself, by mistake. */
function readToken(path: string, place: number): string {
  try {
    return readFileSync(path, "utf8").trim();
  } catch (error) {
    const code = error instanceof Error && "code" in error ? error.code : "it cannot be read";
    throw new UsageError(`Cannot read token file ${place} as ${code}: --token-file takes a path`);
  }
}
