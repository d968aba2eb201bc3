/**
 * Turns an HTTP answer of a Redis REST API into a reply, or into one of two errors: what Redis said, or that nothing is
 * known. The body decides, as services disagree about the status of a Redis error.
 *
 * @module
 */
import { type Reply, ReplyError, toReply } from "../src/command.ts";
import { scrub } from "../src/errors.ts";

/** What is kept of a response. */
export interface Answer {
  readonly status: number;
  readonly text: string;
  /** The Retry-After header. */
  readonly retryAfter: string | null;
}

/** The reply to a single command. */
export function readReply(answer: Answer, secret: string): Reply {
  return readItem(parse(answer.text), answer, secret);
}

/** The replies to a pipeline of so many commands: each is read, or its error thrown, by its own call. */
export function readReplies(count: number): (answer: Answer, secret: string) => (index: number) => Reply {
  return (answer, secret) => {
    const body = parse(answer.text);
    if (Array.isArray(body) && body.length === count) return (index) => readItem(body[index], answer, secret);
    return () => readItem(isRecord(body) ? { error: body.error } : undefined, answer, secret);
  };
}

function readItem(item: unknown, answer: Answer, secret: string): Reply {
  const error = isRecord(item) && typeof item.error === "string" ? item.error : undefined;
  const retryAfterMs = retryAfter(answer);
  if (answer.status === 401) {
    throw new ReplyError(scrub(error ?? "HTTP status 401", [secret]), { code: "WRONGPASS", retryAfterMs });
  }
  // A proxy's own trouble (serverless-redis-http: 500 after the command was sent) is no answer from Redis.
  if (error !== undefined && (answer.status < 500 || /^[A-Z][A-Z0-9_]+ /.test(error))) {
    throw new ReplyError(scrub(error, [secret]), { retryAfterMs });
  }
  if (error === undefined && isRecord(item) && "result" in item && answer.status >= 200 && answer.status < 300) {
    return toReply(item.result);
  }
  const body = scrub(answer.text.replace(/\s+/g, " "), [secret]);
  const reason = `the body is not one of a Redis REST API: current value is status ${answer.status}, body "${body}"`;
  throw Object.assign(
    new Error(`Cannot read the reply as ${reason}`),
    retryAfterMs === undefined ? {} : { retryAfterMs },
  );
}

/** The error itself, unless its text, or that of a cause, would print the secret. */
export function withoutSecret(error: unknown, secret: string): unknown {
  let link: unknown = error;
  for (let depth = 0; depth < 10 && link instanceof Error; depth++) {
    if (link.message.includes(secret)) return new Error(scrub(link.message, [secret]));
    link = link.cause;
  }
  return error;
}

function retryAfter({ retryAfter }: Answer): number | undefined {
  return retryAfter !== null && /^\d{1,9}$/.test(retryAfter.trim()) ? Number(retryAfter) * 1000 : undefined;
}

/** Undefined where the text is no JSON. */
function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

function isRecord(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
