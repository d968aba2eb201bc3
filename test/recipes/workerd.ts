/**
 * Starts a Worker that is made of the recipes, in workerd.
 *
 * @module
 */
import { fileURLToPath } from "node:url";
import { build } from "esbuild";
import type { Miniflare } from "miniflare";
import { startWorkerd, type WorkerOptions } from "../support/workerd.ts";

/** Bundles the text of a module that imports its neighbours here, and starts it. */
export async function startWorker(
  contents: string,
  bindings: Pick<WorkerOptions, "r2Buckets" | "durableObjects">,
): Promise<Miniflare> {
  const stdin = { contents, resolveDir: fileURLToPath(new URL(".", import.meta.url)) };
  const { outputFiles } = await build({ stdin, bundle: true, write: false, format: "esm" });
  return startWorkerd({ script: outputFiles[0]?.text ?? "", compatibilityDate: "2026-11-01", ...bindings });
}
