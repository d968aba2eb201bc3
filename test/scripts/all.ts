/**
 * Every script of the package, found in the folder, with the text of its file.
 *
 * @module
 */
import { readdirSync, readFileSync } from "node:fs";
import type { Script } from "../../src/script.ts";

export interface ScriptFile {
  readonly file: string;
  readonly script: Script<unknown>;
  /** The keys that the header comment declares, in order. */
  readonly keys: readonly string[];
  readonly lines: number;
}

const folder = new URL("../../src/scripts/", import.meta.url);

/** Fails where a script is not documented, or a file holds none and is not imported by one that does. */
export async function allScripts(): Promise<ScriptFile[]> {
  const found: ScriptFile[] = [];
  for (const file of readdirSync(folder).sort()) {
    const text = readFileSync(new URL(file, folder), "utf8");
    const exported: Record<string, unknown> = await import(new URL(file, folder).href);
    for (const script of Object.values(exported).filter(isScript)) {
      const declared = /^ \* KEYS (.+)$/m.exec(text)?.[1];
      if (declared === undefined) throw new Error(`${file} does not say what its KEYS are`);
      found.push({ file, script, keys: declared.split(", "), lines: text.split("\n").length });
    }
  }
  return found;
}

function isScript(value: unknown): value is Script<unknown> {
  return typeof value === "object" && value !== null && "source" in value && "decode" in value;
}
