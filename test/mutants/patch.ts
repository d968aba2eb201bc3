/** Loads the shipped modules with one deliberate mistake in them. */
import { registerHooks } from "node:module";

/** One exact piece of one file, and what stands there instead. */
export interface Patch {
  readonly file: string;
  readonly find: string;
  readonly replace: string;
}

/**
 * From now on these files are loaded with their patches. A piece that is not there exactly once is an error: a mutant
 * that has come loose from the code proves nothing.
 */
export function applyPatches(patches: readonly Patch[]): void {
  const root = new URL("../../", import.meta.url).href;
  registerHooks({
    load(url, context, nextLoad) {
      const loaded = nextLoad(url, context);
      const own = patches.filter(({ file }) => url === root + file);
      if (own.length === 0) return loaded;
      let source = String(loaded.source);
      if (loaded.source instanceof Uint8Array) source = new TextDecoder().decode(loaded.source);
      for (const { file, find, replace } of own) {
        const found = source.split(find).length - 1;
        if (found !== 1) throw new Error(`A mutant has come loose: ${file} has ${found} times ${JSON.stringify(find)}`);
        source = source.replace(find, () => replace);
      }
      return { ...loaded, source };
    },
  });
}
