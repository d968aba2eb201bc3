/**
 * The files of the page, with its program as the browser takes it. Holds no data: what it shows it asks for, with a token.
 *
 * @module
 */
import { readFile } from "node:fs/promises";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

/** One file of the page. */
export interface PageFile {
  readonly path: string;
  readonly type: string;
  readonly text: string;
}

/** What keeps the page out of another's frame, in which its buttons could be pressed, and what else a browser may be told. */
export const pageHeaders: Readonly<Record<string, string>> = {
  "x-frame-options": "DENY",
  "x-content-type-options": "nosniff",
  "referrer-policy": "no-referrer",
};

/** Reads and builds them. */
export async function pageFiles(): Promise<PageFile[]> {
  const read = (name: string): Promise<string> => readFile(new URL(`page/${name}`, import.meta.url), "utf8");
  const { outputFiles } = await build({
    entryPoints: [fileURLToPath(new URL("page/client.ts", import.meta.url))],
    bundle: true,
    minify: true,
    write: false,
    format: "esm",
    target: "es2022",
  });
  return [
    { path: "index.html", type: "text/html; charset=utf-8", text: await read("index.html") },
    { path: "page.css", type: "text/css; charset=utf-8", text: await read("page.css") },
    { path: "page.js", type: "text/javascript; charset=utf-8", text: outputFiles[0]?.text ?? "" },
  ];
}
