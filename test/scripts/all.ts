/**
 * Every script of the package, found in its folder, with what a first call of it may look like.
 *
 * @module
 */
import { readdirSync, readFileSync } from "node:fs";
import type { Command } from "../../src/command.ts";
import type { Script } from "../../src/script.ts";

export interface ScriptFile {
  /** That of its file. */
  readonly name: string;
  readonly script: Script<unknown>;
  /** What the header comment says of each key, in order. */
  readonly keys: readonly string[];
  readonly sampleArgs: Command;
}

const folder = new URL("../../src/scripts/", import.meta.url);

const sampleArgs: Record<string, Command> = {
  acquire: ["t1", 60_000],
  propose: ["t1", 60_000, 2 ** 50],
  extend: ["t1", 60_000],
  inspect: [],
  "fenced-set": [1, "value", 60_000],
  release: ["t1", 60_000],
  elect: ["t1", 60_000, "j", 1, 0],
  commit: ["t1", 1, "j", "jvalue", 60_000, 60_000],
  tend: ["t1", 1, "j", 60_000],
  invalidate: [0],
};

/** Fails where a script's header does not declare its keys, or the name of its file is not known above. */
export async function allScripts(): Promise<ScriptFile[]> {
  const found: ScriptFile[] = [];
  for (const file of readdirSync(folder).sort()) {
    const name = file.replace(/\.ts$/, "");
    const exported: Record<string, unknown> = await import(new URL(file, folder).href);
    for (const script of Object.values(exported).filter(isScript)) {
      const declared = /^ \* KEYS (.+)$/m.exec(readFileSync(new URL(file, folder), "utf8"))?.[1];
      const args = sampleArgs[name];
      if (declared === undefined) throw new Error(`${file} does not say what its KEYS are`);
      if (args === undefined) throw new Error(`Nothing is known of how to call the script ${name}`);
      found.push({ name, script, keys: declared.split(", "), sampleArgs: args });
    }
  }
  return found;
}

function isScript(value: unknown): value is Script<unknown> {
  return typeof value === "object" && value !== null && "source" in value && "decode" in value;
}
