/**
 * Reads what a REST API answered: the body decides, not the status.
 *
 * @module
 */
import { type Reply, ReplyError, toReply } from "../src/command.ts";
import { scrub } from "../src/errors.ts";

/** A response that has been read to its end. */
export interface Body {
  readonly status: number;
  /** The Retry-After header. */
  readonly retryAfter: string | null;
  readonly text: string;
  /** The REST token, which no error may show. */
  readonly token: string;
}

/**
 * The reply to a command; with `place`, to that one of a `/pipeline` of `count`.
 *
 * @throws ReplyError for what Redis answered, "WRONGPASS" for any 401; any other error where the outcome is unknown, as
 * for a proxy's own trouble: serverless-redis-http answers 500 after the command went out
 */
export function replyOf({ status, retryAfter, text, token }: Body, place = 0, count?: number): Reply {
  let body: unknown;
  try {
    body = JSON.parse(text);
  } catch {}
  if (Array.isArray(body)) body = body.length === count ? body[place] : undefined;
  else if (count) body = { error: Object(body).error }; // the whole batch failed
  const { error, result } = Object(body) as { error?: unknown; result?: unknown };
  const seconds = Number(retryAfter || Number.NaN);
  const retryAfterMs = seconds >= 0 ? seconds * 1000 : undefined;
  const said = typeof error === "string" ? scrub(error, [token]) : undefined;
  if (status === 401) throw new ReplyError(said ?? "HTTP status 401", { code: "WRONGPASS", retryAfterMs });
  if (said && (status < 500 || /^[A-Z][A-Z0-9_]+ /.test(said))) throw new ReplyError(said, { retryAfterMs });
  if (result !== undefined && said === undefined && status >= 200 && status < 300) return toReply(result);
  const shown = scrub(text.replace(/\s+/g, " "), [token]);
  const reason = `it is none of a Redis REST API: current value is status ${status}, body "${shown}"`;
  throw Object.assign(new Error(`Cannot read the reply as ${reason}`), { retryAfterMs });
}

/** An error of `fetch` as it is, unless it or its cause tells the token. */
export function withoutToken(error: unknown, token: string): unknown {
  for (const { message } of [Object(error), Object(Object(error).cause)] as { message?: unknown }[]) {
    if (typeof message === "string" && message.includes(token)) return new Error(scrub(message, [token]));
  }
  return error;
}
