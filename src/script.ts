/**
 * Runs one script: EVAL, or EVALSHA where the client keeps its connection. Knows NOSCRIPT, alone.
 *
 * @module
 */
import { type Command, type CommandClient, isReplyError, type Reply } from "./command.ts";
import { hex } from "./random.ts";

/** What every reply comes to: one word for what the server decided, and what goes with it. */
export interface Verdict {
  readonly type: string;
}

/** A Lua script and the meaning of its replies. */
export interface Script<Result> {
  /** The whole text. Every key it touches is in KEYS. */
  readonly source: string;
  /** The meaning of a well-formed reply; undefined for any other shape, which tells nothing. */
  decode(reply: Reply): Result | undefined;
}

/** One run of a script, ready to be sent to any client. */
export interface ScriptCall<Result> {
  readonly script: Script<Result>;
  readonly keys: readonly string[];
  readonly args: readonly (string | number)[];
}

/**
 * Sends the script and returns its raw reply. Rejects as `send` does. At most two commands: EVALSHA, and EVAL after a
 * definite NOSCRIPT, which proves that nothing ran.
 */
export async function runScript(
  client: Pick<CommandClient, "scriptHeader" | "cachesScripts">,
  { script, keys, args }: ScriptCall<unknown>,
  send: (command: Command) => Promise<Reply>,
): Promise<Reply> {
  const source = client.scriptHeader ? `${client.scriptHeader}\n${script.source}` : script.source;
  const rest: Command = [keys.length, ...keys, ...args];
  const digest = client.cachesScripts && (digests.get(source) ?? (await sha1(source)));
  if (digest) {
    try {
      return await send(["EVALSHA", digest, ...rest]);
    } catch (error) {
      // In any wording: behind "ERR", or a proxy's prefix.
      if (!isReplyError(error) || !/NOSCRIPT\b/.test(error.message + error.code)) throw error;
    }
  }
  return await send(["EVAL", source, ...rest]);
}

// By source: the scripts of this package times the headers in use, so a handful. Plain strings, safe to share.
const digests = new Map<string, string>();

/** The name that Redis gives a script; undefined where the runtime has no digest, and EVAL serves. */
async function sha1(source: string): Promise<string | undefined> {
  const bytes = await globalThis.crypto?.subtle?.digest("SHA-1", new TextEncoder().encode(source));
  if (bytes) digests.set(source, hex(new Uint8Array(bytes)));
  return digests.get(source);
}
