/**
 * The snippets in a document or in the doc comments of a source file.
 *
 * @module
 */

/** One fenced block of TypeScript. */
export interface Snippet {
  /** Where it stands, as "README.md:20". */
  readonly name: string;
  readonly code: string;
  /** What its `console.log` calls say they print, in order; undefined for one that says nothing. */
  readonly prints: readonly (string | undefined)[];
}

/** Finds the blocks that are marked `ts`; others, such as `sh`, are no snippets. */
export function snippetsOf(path: string, text: string): Snippet[] {
  const document = path.endsWith(".ts") ? text.replace(/^ *\* ?/gm, "") : text;
  return [...document.matchAll(/^```ts\n(.*?)^```$/gms)].map(({ index, 1: code = "" }) => ({
    name: `${path}:${document.slice(0, index).split("\n").length + 1}`,
    code,
    prints: [...code.matchAll(/console\.log\(.*\);(?: *\/\/ (.+))?$/gm)].map(([, said]) => said),
  }));
}
