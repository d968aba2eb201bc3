/**
 * `leasehold self-test`.
 *
 * @module
 */
import { type Check, type CommandClient, isLockError, type SelfTest, selfTest } from "leasehold";
import { refuseNames, type Values } from "./arguments.ts";
import { endingOf, exit } from "./exit.ts";
import { openNodes } from "./nodes.ts";
import { type Output, visible } from "./output.ts";

/** What one node came to: its test, or why there is none. */
type Result = SelfTest | { readonly label: string; readonly passed: false; readonly reason: string };

/** Tests each node in turn, shows, and says how to end. Ctrl-C ends it once the node at hand has been cleaned up. */
export async function runSelfTest(values: Values, positionals: readonly string[], output: Output): Promise<number> {
  refuseNames("self-test", positionals);
  const nodes = openNodes(values);
  const interrupt = new AbortController();
  let interruptedWith: number | undefined;
  const onSignal = (name: NodeJS.Signals, number: number): void => {
    if (interruptedWith !== undefined) process.exit(interruptedWith); // told twice, it does not wait
    interruptedWith = 128 + number;
    interrupt.abort(new Error(name));
  };
  const signals = ["SIGINT", "SIGTERM", "SIGHUP"] as const;
  for (const name of signals) process.on(name, onSignal);

  const results: Result[] = [];
  try {
    for (const [index, client] of nodes.clients.entries()) {
      const label = client.label ?? `node ${index + 1}`;
      const stop = output.progress(() => `Testing ${label}`);
      const result = await one(client, label, { prefix: values.prefix, signal: interrupt.signal }).finally(stop);
      results.push(result);
      if (!output.json) show(result, output);
      if (interrupt.signal.aborted) break;
    }
  } finally {
    nodes.close();
    for (const name of signals) process.off(name, onSignal);
  }
  if (output.json) output.document({ passed: results.every(({ passed }) => passed), nodes: results });
  else output.line(`Passed on ${results.filter(({ passed }) => passed).length} of ${nodes.count}`);
  return interruptedWith ?? codeOf(results);
}

async function one(
  client: CommandClient,
  label: string,
  options: { readonly prefix: string | undefined; readonly signal: AbortSignal },
): Promise<Result> {
  try {
    return await selfTest(client, options);
  } catch (error) {
    const { code, message } = endingOf(error);
    if (code === exit.usage) throw error;
    const reason = isLockError(error, "aborted") ? "interrupted, and cleaned up" : message;
    return { label, passed: false, reason };
  }
}

function codeOf(results: readonly Result[]): number {
  if (results.some((result) => "checks" in result && !result.passed)) return exit.finding;
  return results.every(({ passed }) => passed) ? exit.ok : exit.unreachable;
}

function show(result: Result, { line, paint }: Output): void {
  line(paint("bold", visible(result.label)));
  if ("reason" in result) line(`  ${paint("red", "no result")}  ${visible(result.reason)}`);
  else for (const check of result.checks) line(`  ${sentence(check, paint)}`);
}

function sentence({ kept, code, promise, saw }: Check, paint: Output["paint"]): string {
  const word = kept ? paint("green", "kept  ") : paint("red", "BROKEN");
  return `${word}  ${code.padEnd(11)}  ${promise}${kept ? "" : `: ${visible(saw)}`}`;
}
