#!/usr/bin/env node
/**
 * The command line: looks at locks and at the Redis they rest on.
 *
 * Run: `npx leasehold --help`.
 *
 * @module
 */
import manifest from "leasehold/package.json" with { type: "json" };
import { type CommandName, isCommandName, parse, type Values } from "./arguments.ts";
import { runDoctor } from "./doctor.ts";
import { endingOf, exit, UsageError } from "./exit.ts";
import { help, helpOf } from "./help.ts";
import { runInspect } from "./inspect.ts";
import { createOutput, type Output, visible } from "./output.ts";
import { runSelfTest } from "./self-test.ts";
import { runServe } from "./serve.ts";

/** Does what a command is for, and gives its exit code. */
type Command = (values: Values, positionals: readonly string[], output: Output) => Promise<number>;

const commands: Record<CommandName, Command> = {
  inspect: runInspect,
  doctor: runDoctor,
  "self-test": runSelfTest,
  serve: runServe,
};

/** Runs one command line and gives its exit code. */
async function run([name, ...args]: readonly string[]): Promise<number> {
  const output = createOutput(args.includes("--json"));
  try {
    if (name === undefined || name === "--help" || name === "-h" || name === "help") {
      output.line(help.trimEnd());
      return name === undefined ? exit.usage : exit.ok;
    }
    if (name === "--version" || name === "-v") {
      output.line(manifest.version);
      return exit.ok;
    }
    if (!isCommandName(name)) throw new UsageError("There is no such command: leasehold --help lists them");
    if (args.includes("--help") || args.includes("-h")) {
      output.line(helpOf[name].trimEnd());
      return exit.ok;
    }
    const { values, positionals } = parse(name, args);
    return await commands[name](values, positionals, output);
  } catch (error) {
    const { code, kind, message } = endingOf(error);
    if (output.json) output.document({ error: { code: kind, message } });
    else process.stderr.write(`${output.paint("red", visible(message))}\n`);
    return code;
  }
}

void run(process.argv.slice(2)).then((code) => {
  process.exitCode = code;
});
