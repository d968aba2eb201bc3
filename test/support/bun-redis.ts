/**
 * Bun's own Redis client, for tests that run in Node: a Bun process of its own executes, and passes on what came of it.
 *
 * @module
 */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { fileURLToPath } from "node:url";
import { type Command, type CommandClient, type Reply, ReplyError } from "../../src/command.ts";

/** What is asked of the Bun process. */
export type Question = { readonly id: number } & (
  | { readonly command: Command; readonly aborted: boolean }
  | { readonly abort: true }
  | { readonly connect: true }
);

/** What came of it: a reply, the end by the signal, or an error with all its own properties as text. */
export type Answer = { readonly id: number } & (
  | { readonly reply?: Reply }
  | { readonly aborted: true }
  | { readonly error: Readonly<Record<string, string>> }
);

/** A client and the process that it lives in. */
export interface BunRedis {
  readonly client: CommandClient;
  /** Bun's own `connect()`. */
  connect(): Promise<unknown>;
  stop(): Promise<void>;
}

const root = fileURLToPath(new URL("../../", import.meta.url));

/** Starts Bun with a client of a URL, and of further settings of Bun's. */
export async function startBunRedis(url: string, settings: Readonly<Record<string, number>> = {}): Promise<BunRedis> {
  const program = ["--conditions=leasehold-source", fileURLToPath(new URL("bun-child.ts", import.meta.url))];
  const child = spawn(`${root}node_modules/.bin/bun`, [...program, url, JSON.stringify(settings)], {
    stdio: ["ignore", "inherit", "inherit", "ipc"],
  });
  const ended = once(child, "exit");
  await Promise.race([once(child, "message"), ended.then(() => Promise.reject(new Error("Bun did not start")))]);

  const waiting = new Map<number, (answer: Answer) => void>();
  child.on("message", (answer: Answer) => waiting.get(answer.id)?.(answer));
  const over = { error: { name: "Error", message: "Bun has ended" } };
  child.on("exit", () => {
    for (const [id, resolve] of waiting) resolve({ id, ...over });
  });
  let last = 0;
  const ask = async (question: (id: number) => Question, signal?: AbortSignal): Promise<Reply> => {
    const id = ++last;
    if (!child.connected) throw rebuilt(over.error);
    const abort = (): void => void (child.connected && child.send({ id, abort: true } satisfies Question));
    signal?.addEventListener("abort", abort);
    const answer = await new Promise<Answer>((resolve) => {
      waiting.set(id, resolve);
      child.send(question(id));
    });
    waiting.delete(id);
    signal?.removeEventListener("abort", abort);
    if ("aborted" in answer) throw signal?.reason;
    if ("error" in answer) throw rebuilt(answer.error);
    return answer.reply ?? null;
  };
  return {
    client: {
      cachesScripts: true,
      execute: (command, { signal } = {}) => ask((id) => ({ id, command, aborted: signal?.aborted === true }), signal),
    },
    connect: () => ask((id) => ({ id, connect: true })),
    async stop() {
      child.disconnect();
      await ended;
    },
  };
}

function rebuilt({ name, message = "", ...own }: Readonly<Record<string, string>>): Error {
  const error = name === "ReplyError" ? new ReplyError(message) : new Error(message);
  return Object.assign(error, own);
}
