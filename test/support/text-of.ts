import { readFileSync } from "node:fs";

/** What stands in a file of this project, by its path from the root. */
export function textOf(path: string): string {
  return readFileSync(new URL(`../../${path}`, import.meta.url), "utf8");
}
