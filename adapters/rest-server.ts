/**
 * The reverse of `restClient`: serves any client as the Upstash REST protocol, for tests or a Redis of one's own.
 *
 * @module
 */
import { type Context, Hono } from "hono";
import { bodyLimit } from "hono/body-limit";
import { type CommandClient, field, isReplyError, type Reply } from "../src/command.ts";
import { configError } from "../src/errors.ts";
import { refusalOf } from "./rest-server-commands.ts";
import { bearerOf, isSame } from "./rest-server-token.ts";
import { base64, isCommand, type WireCommand } from "./rest-server-wire.ts";

/** Options of {@link restServer}. */
export interface RestServerOptions {
  /** What callers must send as `Authorization: Bearer <token>`. It opens every command: there is no read-only token. */
  readonly token: string;
  /**
   * The longest request body, in bytes; a longer one gets a 413.
   *
   * @default {10_485_760}
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
 * - Commands that change or block a connection, such as SELECT, MULTI and BLPOP, are refused: callers share one.
 * - Values are text: bytes that are not UTF-8 do not survive.
 *
 * @throws LockError "config" when the client is none, no header can hold the token, or the limit is no positive number
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
export function restServer(client: CommandClient, options: RestServerOptions): Hono {
  const { token, maxBodyBytes: maxSize = 10_485_760 } = Object(options) as RestServerOptions;
  const authorization = bearerOf(token);
  if (!field(client, "execute")) throw configError("client", "one with an execute method", typeof client);
  const isLimit = typeof maxSize === "number" && maxSize > 0;
  if (!isLimit) throw configError("maxBodyBytes", "a positive number", String(maxSize));
  const app = new Hono();
  app.use(async (c, next) => {
    if (isSame(c.req.header("authorization") ?? "", authorization)) return next();
    return c.json({ error: "WRONGPASS invalid or missing auth token" }, 401);
  });
  // The rest of the body is not read, so the connection is of no more use.
  app.use(bodyLimit({ maxSize, onError: (c) => c.json(tooLong, 413, { connection: "close" }) }));

  app.post("/", async (c) => {
    const command = await readJson(c);
    if (!isCommand(command)) return c.json(malformed, 400);
    const answer = await run(client, command, c);
    return c.json(answer, "error" in answer ? 400 : 200);
  });
  const many = (inTurn: boolean) => async (c: Context) => {
    const commands = await readJson(c);
    if (!Array.isArray(commands) || !commands[0] || !commands.every(isCommand)) return c.json(malformed, 400);
    const answers: Promise<Answer>[] = [];
    for (const command of commands) {
      answers.push(run(client, command, c));
      if (inTurn) await answers.at(-1);
    }
    return c.json(await Promise.all(answers));
  };
  app.post("/pipeline", many(false));
  app.post("/multi-exec", many(true));

  for (const path of ["/", "/pipeline", "/multi-exec"]) {
    app.all(path, (c) => c.json({ error: "ERR method not allowed: use POST" }, 405, { allow: "POST" }));
  }
  app.all("*", (c) => c.json({ error: "ERR unknown path: use /, /pipeline or /multi-exec" }, 404));
  // Not a text that begins with an error code: callers must not take it for an answer from Redis.
  app.onError((_error, c) => c.json({ error: "Cannot reach Redis: the outcome of the request is unknown" }, 500));
  return app;
}

type Answer = { readonly result: Reply } | { readonly error: string };

const tooLong = { error: "ERR max request size exceeded" };
const malformed = { error: "ERR failed to parse the request: the body must be a command, or a list of them, as JSON" };

/** Rejects where the outcome is unknown. */
async function run(client: CommandClient, command: WireCommand, c: Context): Promise<Answer> {
  const refused = refusalOf(command);
  if (refused) return { error: refused };
  try {
    const reply = await client.execute(command.map((part) => (typeof part === "boolean" ? String(part) : part)));
    return { result: c.req.header("upstash-encoding") === "base64" ? base64(reply) : reply };
  } catch (error) {
    if (isReplyError(error)) return { error: error.message };
    throw error;
  }
}

function readJson(c: Context): Promise<unknown> {
  return c.req.json<unknown>().catch(() => undefined);
}
