import { createHash } from "node:crypto";
import { afterEach, describe, expect, test, vi } from "vitest";
import { type Command, type CommandClient, type Reply, ReplyError } from "../src/command.ts";
import { runScript, type Script } from "../src/script.ts";

const script: Script<Reply> = { source: "return 42", decode: (reply) => reply };
const sha1 = (source: string): string => createHash("sha1").update(source).digest("hex");

/** Runs the script on a client of the given kind, which replies in turn; gives the commands that it was sent. */
async function run(
  client: Pick<CommandClient, "scriptHeader" | "cachesScripts">,
  ...replies: (Reply | Error)[]
): Promise<{ sent: Command[]; reply: Reply | Error }> {
  const sent: Command[] = [];
  const send = async (command: Command): Promise<Reply> => {
    sent.push(command);
    const reply = replies[sent.length - 1] ?? expect.fail("One command too many was sent");
    if (reply instanceof Error) throw reply;
    return reply;
  };
  const call = { script, keys: ["one", "two"], args: ["text", 7] };
  return { reply: await runScript(client, call, send).catch((error: Error) => error), sent };
}

const evalCommand: Command = ["EVAL", "return 42", 2, "one", "two", "text", 7];
const evalshaCommand: Command = ["EVALSHA", sha1("return 42"), 2, "one", "two", "text", 7];

afterEach(() => vi.unstubAllGlobals());

describe("runScript()", () => {
  test("sends EVAL, once, to a client that keeps no connection", async () => {
    expect(await run({}, 42)).toEqual({ reply: 42, sent: [evalCommand] });
    expect(await run({ cachesScripts: false }, 42)).toEqual({ reply: 42, sent: [evalCommand] });
  });

  test("sends EVALSHA to a client that keeps its connection", async () => {
    expect(await run({ cachesScripts: true }, 42)).toEqual({ reply: 42, sent: [evalshaCommand] });
  });

  test("sends EVAL after EVALSHA was answered NOSCRIPT", async () => {
    const { reply, sent } = await run({ cachesScripts: true }, new ReplyError("NOSCRIPT No matching script."), 42);
    expect(sent).toEqual([evalshaCommand, evalCommand]);
    expect(reply).toBe(42);
  });

  test("sends EVAL after a NOSCRIPT that another copy of this package reports", async () => {
    const foreign = Object.assign(new Error("Unknown digest"), { name: "ReplyError", code: "NOSCRIPT" });
    expect((await run({ cachesScripts: true }, foreign, 42)).sent).toEqual([evalshaCommand, evalCommand]);
  });

  test("never sends a third command, whatever Redis answers", async () => {
    const noScript = new ReplyError("NOSCRIPT No matching script. Please use EVAL.");
    expect(await run({ cachesScripts: true }, noScript, noScript)).toEqual({
      reply: noScript,
      sent: [evalshaCommand, evalCommand],
    });
    expect(await run({}, noScript)).toEqual({ reply: noScript, sent: [evalCommand] });
  });

  // A second command after these could run the script twice.
  test.for([
    new ReplyError("OOM command not allowed when used memory > 'maxmemory'."),
    new ReplyError("ERR Error running script, NOSCRIPTS allowed"),
    new Error("NOSCRIPT was the last word before the connection was lost"),
    new DOMException("No answer in time", "TimeoutError"),
  ])("sends nothing more after %s", async (error) => {
    expect(await run({ cachesScripts: true }, error)).toEqual({ reply: error, sent: [evalshaCommand] });
  });

  test("puts the client's header on the first line, and into the digest", async () => {
    const scriptHeader = "#!lua flags=allow-key-locking";
    const source = `${scriptHeader}\nreturn 42`;
    expect((await run({ scriptHeader }, 42)).sent).toEqual([["EVAL", source, ...evalCommand.slice(2)]]);
    const noScript = new ReplyError("NOSCRIPT No matching script. Please use EVAL.");
    expect((await run({ scriptHeader, cachesScripts: true }, noScript, 42)).sent).toEqual([
      ["EVALSHA", sha1(source), ...evalshaCommand.slice(2)],
      ["EVAL", source, ...evalCommand.slice(2)],
    ]);
    expect((await run({ scriptHeader: "" }, 42)).sent).toEqual([evalCommand]);
  });

  test.for([[undefined], [{}]])("sends EVAL where the runtime has no digest: crypto is %j", async ([crypto]) => {
    vi.stubGlobal("crypto", crypto);
    // A header of its own, since digests are kept.
    const { sent } = await run({ cachesScripts: true, scriptHeader: "#!lua name=none" }, 42);
    expect(sent).toEqual([["EVAL", "#!lua name=none\nreturn 42", ...evalCommand.slice(2)]]);
  });
});
