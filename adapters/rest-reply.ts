/**
 * Reads what a REST API answered: the body decides, not the status.
 *
 * @module
 */
import { isRedisText, type Reply, ReplyError } from "../src/command.ts";
import { scrub } from "../src/errors.ts";
import type { RestResponse } from "./rest-request.ts";

/** A response that has been read to its end. */
export interface Body {
  readonly response: RestResponse;
  readonly text: string;
  /** The text as JSON; undefined where it is none. */
  readonly json: unknown;
  /** The REST token, which no error may show. */
  readonly token: string;
}

/** The body of a response, whatever its status. */
export function bodyOf(response: RestResponse, text: string, token: string): Body {
  let json: unknown;
  try {
    json = JSON.parse(text);
  } catch {} // an outage of a proxy, most likely: replyOf tells it by status and text
  return { response, text, json, token };
}

/** What a `/pipeline` of `count` answered to the command at `place`; a whole that failed fails each. */
export function replyAt(body: Body, place: number, count: number): Reply {
  const { json } = body;
  // Without its text, which may quote the commands of others.
  if (!Array.isArray(json)) return replyOf({ ...body, text: "" }, { error: Object(json).error });
  return replyOf(body, json.length === count ? json[place] : undefined);
}

/**
 * The reply in an answer, by default the whole body.
 *
 * @throws ReplyError for what Redis answered, "WRONGPASS" for any 401; any other error where the outcome is unknown, as
 * for a proxy's own trouble: serverless-redis-http answers 500 after the command went out
 */
export function replyOf({ response, text, json, token }: Body, answer: unknown = json): Reply {
  const { status, headers } = response;
  const { error, result } = Object(answer) as { error?: unknown; result?: unknown };
  if (!error && status < 300 && isReply(result)) return result;
  const said = scrub(error, [token]);
  const retryAfterMs = Number(headers.get("retry-after")) * 1_000 || undefined;
  if (status === 401) throw new ReplyError(said || "status 401", { code: "WRONGPASS" });
  if (said && (status < 500 || isRedisText(said))) throw new ReplyError(said, { retryAfterMs });
  const shown = scrub(text.replace(/\s+/g, " "), [token]);
  throw Object.assign(new Error(`status ${status}: ${shown}`), { retryAfterMs });
}

// Of what JSON can hold, Redis has no objects and no booleans.
function isReply(value: unknown): value is Reply {
  return Array.isArray(value)
    ? value.every(isReply)
    : value === null || typeof value === "string" || typeof value === "number";
}

/** What `fetch` says, with its cause, where a refused connection is told, and without the token. */
export function toldBy(error: unknown, token: string): Error {
  const { message, cause } = Object(error) as { message?: unknown; cause?: unknown };
  return new Error(scrub([message, Object(cause).message].filter(Boolean).join(": "), [token]));
}
