/**
 * Runs the scenario in Node, Deno or Bun: `<runtime> main.ts <token> <name> <url> <url> <url>`. Prints what it saw as JSON,
 * and ends by itself.
 *
 * @module
 */
import { runScenario } from "./scenario.ts";

const [token = "", name = "", ...urls] = process.argv.slice(2);
const [a = "", b = "", c = ""] = urls;
console.log(JSON.stringify(await runScenario({ urls: [a, b, c], token, name })));
