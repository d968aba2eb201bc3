/**
 * Starts a Worker that is made of the recipes, in workerd.
 *
 * @module
 */
import { fileURLToPath } from "node:url";
import { build } from "esbuild";
import { convertV4MiniflareOptions, Miniflare } from "miniflare";

/** What the Worker finds in its environment. */
export interface Bindings {
  readonly r2Buckets?: string[];
  readonly durableObjects?: Record<string, { className: string; useSQLite: boolean }>;
}

/** Bundles the text of a module that imports its neighbours here, and starts it. */
export async function startWorker(contents: string, bindings: Bindings): Promise<Miniflare> {
  const stdin = { contents, resolveDir: fileURLToPath(new URL(".", import.meta.url)) };
  const { outputFiles } = await build({ stdin, bundle: true, write: false, format: "esm" });
  const options = convertV4MiniflareOptions({
    name: "recipe",
    modules: true,
    script: outputFiles[0]?.text ?? "",
    compatibilityDate: "2026-11-01",
    host: "127.0.0.1",
    port: 0,
    cf: false,
    ...bindings,
  });
  return new Miniflare(options);
}
