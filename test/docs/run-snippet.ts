/**
 * Runs one snippet in a process of its own: `node run-snippet.ts <file>`. A module that exports a Worker gets a request.
 *
 * @module
 */
import { pathToFileURL } from "node:url";

interface Worker {
  fetch(request: Request, env: unknown, context: { waitUntil(work: Promise<unknown>): void }): Promise<Response>;
}

const snippet: { readonly default?: Worker } = await import(pathToFileURL(process.argv[2] ?? "").href);
if (snippet.default) {
  const behind: Promise<unknown>[] = [];
  const waitUntil = (work: Promise<unknown>): void => void behind.push(work);
  const response = await snippet.default.fetch(new Request("https://example.test/"), process.env, { waitUntil });
  await Promise.all(behind);
  if (!response.ok) throw new Error(`The Worker answered ${response.status}: ${await response.text()}`);
}
