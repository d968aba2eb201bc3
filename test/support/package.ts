/**
 * A project that has the package as it would be published.
 *
 * @module
 */
import { execFile } from "node:child_process";
import { cp, mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";

const root = fileURLToPath(new URL("../../", import.meta.url));

/** Builds the package into the `node_modules` of a folder, and makes that a project. */
export async function projectWithPackage(folder: string): Promise<void> {
  const installed = join(folder, "node_modules/leasehold");
  await mkdir(installed, { recursive: true });
  const tsc = join(root, "node_modules/typescript/bin/tsc");
  const settings = ["-p", join(root, "tsconfig.build.json"), "--outDir", join(installed, "dist")];
  await promisify(execFile)(process.execPath, [tsc, ...settings]);
  await cp(join(root, "package.json"), join(installed, "package.json"));
  await writeFile(join(folder, "package.json"), '{ "type": "module" }');
}
