/**
 * Writes the page where `wrangler.toml` serves it from. Run by wrangler before the Worker is built.
 *
 * @module
 */
import { mkdir, writeFile } from "node:fs/promises";
import { pageFiles, pageHeaders } from "./page.ts";

const folder = new URL("dist/", import.meta.url);
await mkdir(folder, { recursive: true });
const headers = Object.entries(pageHeaders).map(([name, value]) => `  ${name}: ${value}\n`);
await writeFile(new URL("_headers", folder), `/*\n${headers.join("")}`);
for (const { path, text } of await pageFiles()) await writeFile(new URL(path, folder), text);
