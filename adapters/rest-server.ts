/**
 * The reverse of `restClient`: serves any client as the Upstash REST protocol, for local work, for tests, and for a
 * Redis of one's own that must be reached by HTTP.
 *
 * @module
 */
import { type Context, Hono } from "hono";
import { bodyLimit } from "hono/body-limit";
import { type Command, type CommandClient, isReplyError, type Reply } from "../src/command.ts";
import { LockError } from "../src/errors.ts";

/** Options of {@link restServer}. */
export interface RestServerOptions {
  /** What callers must send as `Authorization: Bearer <token>`. It opens every command: there is no read-only token. */
  readonly token: string;
  /**
   * The longest request body, in bytes; longer ones get a 413.
   *
   * @default 10_485_760
   */
  readonly maxBodyBytes?: number | undefined;
}

/**
 * A Hono app that answers `POST /`, `POST /pipeline` and `POST /multi-exec` as Upstash does, with `Upstash-Encoding:
 * base64` where asked for. Serve it, mount it in another app, or call `app.request`.
 *
 * - An error from Redis is a 400, or one element of a pipeline's 200. When the outcome of a command is unknown, as after
 *   a lost connection, the whole answer is a 500.
 * - `/pipeline` hands all commands to the client at once and in order; a client with one connection keeps that order.
 * - `/multi-exec` runs them one after another and is **not** a transaction: other commands may run in between.
 * - Values are text: bytes that are not UTF-8 do not survive.
 *
 * @throws {LockError} "config" when the token is empty.
 *
 * @example
 * ```ts
 * import { memoryClient } from "leasehold/memory";
 * import { restServer } from "leasehold/rest-server";
 *
 * const app = restServer(memoryClient(), { token: "local" });
 * const headers = { authorization: "Bearer local" };
 * const response = await app.request("/", { method: "POST", headers, body: '["PING"]' });
 * console.log(await response.json()); // { result: "PONG" }
 * ```
 */
export function restServer(client: CommandClient, { token, maxBodyBytes = 10_485_760 }: RestServerOptions): Hono {
  if (typeof token !== "string" || token.trim() === "") {
    throw new LockError("config", `Cannot serve Redis as "token" must be a non-empty string: current value is empty`);
  }
  const app = new Hono();
  app.use(async (c, next) => {
    if (await sameText(c.req.header("authorization") ?? "", `Bearer ${token}`)) return next();
    return c.json({ error: "WRONGPASS invalid or missing auth token" }, 401);
  });
  app.use(
    bodyLimit({ maxSize: maxBodyBytes, onError: (c) => c.json({ error: "ERR max request size exceeded" }, 413) }),
  );

  app.post("/", async (c) => {
    const [command] = readCommands([await readJson(c)]) ?? [];
    if (command === undefined) return malformed(c, `["COMMAND", "argument", …]`);
    const answer = await run(client, command);
    if (answer === undefined) return unknownOutcome(c);
    return "error" in answer ? c.json(answer, 400) : c.json(encoded(c, answer));
  });

  const many =
    (runAll: (commands: readonly Command[]) => Promise<readonly (Answer | undefined)[]>) => async (c: Context) => {
      const commands = readCommands(await readJson(c));
      if (commands === undefined) return malformed(c, `[["COMMAND", "argument", …], …]`);
      const answers = await runAll(commands);
      const known = answers.filter((answer) => answer !== undefined);
      return known.length < answers.length ? unknownOutcome(c) : c.json(known.map((answer) => encoded(c, answer)));
    };
  app.post(
    "/pipeline",
    many((commands) => Promise.all(commands.map((command) => run(client, command)))),
  );
  app.post(
    "/multi-exec",
    many(async (commands) => {
      const answers: (Answer | undefined)[] = [];
      for (const command of commands) answers.push(await run(client, command));
      return answers;
    }),
  );

  app.on(["GET", "PUT", "PATCH", "DELETE"], ["/", "/pipeline", "/multi-exec"], (c) =>
    c.json({ error: "ERR method not allowed: use POST" }, 405, { allow: "POST" }),
  );
  app.all("*", (c) => c.json({ error: "ERR unknown path: use /, /pipeline or /multi-exec" }, 404));
  return app;
}

type Answer = { readonly result: Reply } | { readonly error: string };

/** Undefined when the outcome is unknown. */
async function run(client: CommandClient, command: Command): Promise<Answer | undefined> {
  try {
    return { result: await client.execute(command) };
  } catch (error) {
    return isReplyError(error) ? { error: error.message } : undefined;
  }
}

// Does not begin with a Redis error code: callers must not take it for an answer from Redis.
function unknownOutcome(c: Context): Response {
  return c.json({ error: "Cannot reach Redis: the outcome of the request is unknown" }, 500);
}

function malformed(c: Context, shape: string): Response {
  return c.json({ error: `ERR failed to parse the request: the body must be ${shape}` }, 400);
}

function readJson(c: Context): Promise<unknown> {
  return c.req.json<unknown>().catch(() => undefined);
}

function readCommands(body: unknown): readonly Command[] | undefined {
  if (!Array.isArray(body) || body.length === 0) return undefined;
  const commands = body.map(readCommand).filter((command) => command !== undefined);
  return commands.length === body.length ? commands : undefined;
}

function readCommand(value: unknown): Command | undefined {
  if (!Array.isArray(value) || typeof value[0] !== "string") return undefined;
  const scalar = value.every((part) => ["string", "number", "boolean"].includes(typeof part));
  return scalar ? value.map((part) => (typeof part === "boolean" ? String(part) : part)) : undefined;
}

function encoded(c: Context, answer: Answer): Answer {
  if ("error" in answer || c.req.header("upstash-encoding") !== "base64") return answer;
  return { result: base64(answer.result) };
}

/** Every string in a reply, except "OK", which Upstash leaves as it is. */
function base64(reply: Reply): Reply {
  if (typeof reply === "object" && reply !== null) return reply.map(base64);
  if (typeof reply !== "string" || reply === "OK") return reply;
  let bytes = "";
  for (const byte of new TextEncoder().encode(reply)) bytes += String.fromCharCode(byte);
  return btoa(bytes);
}

/** Compares hashes, so that the time taken says nothing about how much of the token was right. */
async function sameText(one: string, other: string): Promise<boolean> {
  const hash = async (text: string) =>
    new Uint8Array(await crypto.subtle.digest("SHA-256", new TextEncoder().encode(text)));
  const [a, b] = await Promise.all([hash(one), hash(other)]);
  let difference = 0;
  for (const [index, byte] of a.entries()) difference |= byte ^ (b[index] ?? 0);
  return difference === 0;
}
