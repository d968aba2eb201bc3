/**
 * The command line: which options each command has, and what is wrong with what was given.
 *
 * @module
 */
import { type ParseArgsConfig, parseArgs } from "node:util";
import { UsageError } from "./exit.ts";

/** A command's name. */
export type CommandName = "inspect" | "doctor" | "self-test" | "serve";

/** What was given, of the options that the command has. */
export interface Values {
  readonly node?: string[];
  readonly "token-file"?: string[];
  readonly "token-env"?: string[];
  readonly prefix?: string;
  readonly quorum?: string;
  readonly lease?: string;
  readonly drift?: string;
  readonly all?: boolean;
  readonly redis?: string;
  readonly host?: string;
  readonly port?: string;
  readonly token?: string;
  readonly json?: boolean;
  readonly help?: boolean;
}

type Options = { readonly [Name in keyof Values]: NonNullable<ParseArgsConfig["options"]>[string] };

const text = { type: "string" } as const;
const texts = { type: "string", multiple: true } as const;
const flag = { type: "boolean" } as const;
const always: Options = { "token-file": texts, "token-env": texts, json: flag, help: { ...flag, short: "h" } };
const nodes: Options = { ...always, node: texts, prefix: text };

const options: Readonly<Record<CommandName, Options>> = {
  inspect: { ...nodes, quorum: text },
  doctor: { ...nodes, quorum: text, lease: text, drift: text, all: flag },
  "self-test": nodes,
  serve: { ...always, redis: text, host: text, port: text, token: text },
};

/** Whether there is such a command. */
export function isCommandName(name: string | undefined): name is CommandName {
  return name !== undefined && Object.hasOwn(options, name);
}

/** What was given by name, and what stands by itself. Neither is repeated in a message: it may be a URL with a password. */
export function parse(
  name: CommandName,
  args: readonly string[],
): { readonly values: Values; readonly positionals: readonly string[] } {
  try {
    const { values, positionals } = parseArgs({ args: [...args], options: options[name], allowPositionals: true });
    const checked: object = values; // by the table above
    return { values: checked, positionals };
  } catch (error) {
    const [reason = ""] = error instanceof Error ? error.message.split(/\.\s|\n/) : [];
    throw new UsageError(`Cannot run ${name}: ${reason}`);
  }
}

/** For a command that is about nodes alone. */
export function refuseNames(name: CommandName, positionals: readonly string[]): void {
  if (positionals.length > 0) throw new UsageError(`Cannot run ${name} with a name: --node names its nodes`);
}

/** A number, or undefined where the option was not given. Its bounds are the library's to check. */
export function numberOf(option: string, given: string | undefined): number | undefined {
  if (given === undefined) return undefined;
  const value = given.trim() === "" ? Number.NaN : Number(given);
  if (Number.isFinite(value)) return value;
  throw new UsageError(`Cannot use --${option} as it must be a number`);
}
