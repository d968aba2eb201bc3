/**
 * Any Redis behind the Upstash REST protocol, over `fetch`: one request for one command, sent once.
 *
 * @module
 */
import { type CommandClient, type Signal, untilAborted } from "../src/command.ts";
import { configError } from "../src/errors.ts";
import { currentHost } from "../src/host.ts";
import { batching } from "./rest-batch.ts";
import { type Body, bodyOf, replyOf, toldBy } from "./rest-reply.ts";
import { addressOf, type RestRequest, type RestResponse, uniqueBlanks } from "./rest-request.ts";

export type { RestRequest, RestResponse } from "./rest-request.ts";

/** Options of {@link restClient}. */
export interface RestClientOptions {
  /**
   * The https URL of the REST API, with a path if there is one. May be an unset variable: it is read at the first use, and
   * no more once it was a URL.
   */
  readonly url: string | undefined;
  /** The REST token, one that may write. It is read at each request, sent as a header and never printed. */
  readonly token: string | undefined;
  /** @default {the host of the URL} */
  readonly label?: string | undefined;
  /**
   * First line of every script; an empty string for none.
   *
   * @default {"#!lua flags=allow-key-locking" under upstash.io, where a script locks the whole database without it; else none}
   */
  readonly scriptHeader?: string | undefined;
  /** Used instead of the global `fetch`. It must not repeat requests. */
  readonly fetch?: ((url: string, request: RestRequest) => Promise<RestResponse>) | undefined;
  /** Passed to `fetch` if given. Never needed: no two requests have the same body, so no cache can answer one. */
  readonly cache?: "no-store" | "no-cache" | undefined;
  /**
   * Sends the commands of one microtask drain, 1000 at most, as one `/pipeline` request: more throughput for many keys
   * at once, at the price that all wait for the slowest. Refused on Cloudflare Workers, where requests must not share.
   *
   * @default {false}
   */
  readonly batch?: boolean | undefined;
}

/**
 * A client for Upstash Redis, or for anything that speaks its REST protocol. Never retries; `fetch` itself may, as Deno
 * does on a connection that broke, so a command can run twice.
 *
 * `execute` rejects with a `ReplyError` for what Redis answered (code "WRONGPASS" for any 401), with a `LockError`
 * "config" for a `url` or `token` that cannot be right, with the signal's reason, and with any other error when the
 * outcome is unknown. After a Retry-After header the error has `retryAfterMs`.
 *
 * @example
 * ```ts
 * import { restClient } from "leasehold/rest";
 *
 * const { UPSTASH_REDIS_REST_URL: url, UPSTASH_REDIS_REST_TOKEN: token } = process.env;
 * const client = restClient({ url, token });
 * ```
 */
export function restClient(options: RestClientOptions): CommandClient {
  const { fetch, cache, batch, label, scriptHeader } = options;
  let address = addressOf(options.url);

  const post = async (path: string, payload: unknown, signal: Signal | undefined): Promise<Body> => {
    if (batch && currentHost().isolatesRequests) throw configError("batch", "off on Workers", "true");
    address ??= addressOf(options.url);
    // Neither a URL nor a token is shown: one may hold the other by mistake.
    if (!address) throw configError("url", "a REST URL without credentials", typeof options.url);
    const token = `${options.token ?? ""}`.trim(); // a line break often comes with it
    if (!/^[!-~]+$/.test(token)) throw configError("token", "a REST token", typeof options.token);
    if (signal?.aborted) throw signal.reason;
    const answered = (async () =>
      (fetch ?? globalThis.fetch)(address.base + path, {
        method: "POST",
        headers: { authorization: `Bearer ${token}`, "content-type": "application/json" },
        body: JSON.stringify(payload) + uniqueBlanks(),
        redirect: "manual", // a followed one would take the token along
        signal: signal as Signal, // undefined is to fetch as if it were absent
        ...(cache && { cache }),
      }))()
      // Whatever the status: an unread body holds its connection, and on Workers one of six places.
      .then(async (response) => bodyOf(response, await response.text(), token))
      .catch((error: unknown) => {
        throw signal?.aborted ? signal.reason : toldBy(error, token);
      });
    return untilAborted(answered, fetch && signal); // the global one is taken to heed the signal by itself
  };

  return {
    execute: batch
      ? batching((commands, signal) => post("/pipeline", commands, signal))
      : async (command, { signal } = {}) => replyOf(await post("", command, signal)),
    label: label ?? address?.host,
    // Without it every EVAL on Upstash locks the whole database: https://upstash.com/docs/redis/features/key-locking.
    scriptHeader: scriptHeader ?? (address?.host.endsWith(".upstash.io") ? "#!lua flags=allow-key-locking" : undefined),
  };
}
