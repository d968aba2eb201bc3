/**
 * Bundles a Worker and starts it in workerd, on a free port of the loopback interface.
 *
 * @module
 */
import { fileURLToPath } from "node:url";
import { build } from "esbuild";
import { convertV4MiniflareOptions, Miniflare } from "miniflare";

/** A Worker and what it finds in its environment. */
export interface WorkerOptions {
  /** One module, bundled. */
  readonly script: string;
  readonly compatibilityDate: string;
  /** On by itself from 2026-08-04 on. */
  readonly nodejsCompat?: boolean;
  readonly bindings?: Record<string, string | readonly string[]>;
  readonly r2Buckets?: string[];
  readonly durableObjects?: Record<string, { className: string; useSQLite: boolean }>;
}

/** Bundles for a Worker that has web globals only: an import of anything else would not resolve. */
export async function bundleForWorkers(entry: URL): Promise<string> {
  const { outputFiles } = await build({
    entryPoints: [fileURLToPath(entry)],
    bundle: true,
    write: false,
    format: "esm",
    platform: "neutral",
    mainFields: ["module", "main"],
    conditions: ["leasehold-source", "workerd", "worker", "browser"],
  });
  return outputFiles[0]?.text ?? "";
}

/** Starts a Worker. The caller disposes of it. */
export function startWorkerd({ nodejsCompat = false, ...options }: WorkerOptions): Miniflare {
  const fixed = { name: "worker", modules: true, host: "127.0.0.1", port: 0, cf: false } as const;
  const compatibilityFlags = nodejsCompat ? ["nodejs_compat"] : [];
  return new Miniflare(convertV4MiniflareOptions({ ...fixed, compatibilityFlags, ...options }));
}
