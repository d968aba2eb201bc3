/**
 * An instance of @upstash/redis behind the boundary, of any of its entries, in its default settings too.
 *
 * @module
 */
import type { Command, CommandClient, Reply } from "../src/command.ts";
import { field, isRedisText, ReplyError, toReply, untilAborted } from "../src/command.ts";
import { LockError, scrub } from "../src/errors.ts";

/** What is asked of @upstash/redis: a shape, so that the Node.js, Cloudflare and Fastly entries will do. */
export interface UpstashRedis {
  exec(command: [string, ...(string | number)[]]): Promise<unknown>;
}

/** Options of {@link upstashClient}. */
export interface UpstashClientOptions {
  /** @default {the host of the instance's URL} */
  readonly label?: string | undefined;
  /**
   * First line of every script; an empty string for none.
   *
   * @default {"#!lua flags=allow-key-locking" under upstash.io, where a script locks the whole database without it; else none}
   */
  readonly scriptHeader?: string | undefined;
}

/**
 * Sends commands through an @upstash/redis instance, version 1.35.2 or later. `restClient` is smaller and says more about
 * failures: prefer it where nothing else needs the instance.
 *
 * - The instance retries by itself: one command may be sent six times within 4 s, and after the caller's signal has ended
 *   the waiting. Locks and caches stay right under that; `retry: { retries: 0 }` saves the requests.
 * - It parses values unless `automaticDeserialization` is false: a string that looks like JSON is not given back as it
 *   was. What the scripts of this package answer is not changed by it.
 *
 * @throws LockError "config" when the object is no such instance, or has a setting that makes up or mixes up replies: a
 * `signal` that is not a function, a `cache` that may answer, or automatic pipelining before version 1.35.2
 *
 * @example
 * ```ts
 * import { Redis } from "@upstash/redis";
 * import { createLock } from "leasehold";
 * import { upstashClient } from "leasehold/upstash";
 *
 * const redis = new Redis({ url: "https://example.upstash.io", token: "example" });
 * const lock = createLock(upstashClient(redis));
 * ```
 */
export function upstashClient(redis: UpstashRedis, options?: UpstashClientOptions): CommandClient {
  checkInstance(redis);
  const host = hostOf(redis);
  const header = /\.upstash\.io(:\d+)?$/.test(host ?? "") ? "#!lua flags=allow-key-locking" : undefined;
  const { label = host, scriptHeader = header } = options ?? {};
  return {
    label,
    scriptHeader,
    cachesScripts: false,
    async execute(command, { signal } = {}) {
      if (signal?.aborted) throw signal.reason;
      return untilAborted(send(redis, command), signal);
    },
  };
}

async function send(redis: UpstashRedis, [name, ...args]: Command): Promise<Reply> {
  try {
    return toReply(await redis.exec([String(name), ...args]));
  } catch (error) {
    throw plain(error);
  }
}

/** Never the foreign object, and never its whole text: it ends with the command, lease token included. */
function plain(error: unknown): Error {
  if (!(error instanceof Error)) return new Error(scrub(String(error)));
  const text = error.message
    .replace(/,? ?command was: .*$/s, "")
    .replace(/^Command( \d+ \[ \S+ \])? failed: /, "")
    .replace(/(?<=Bearer )[^"]*|(?<=\/\/)[^/\s]*(?=@)/g, "***"); // fetch quotes a header that it cannot send, and a URL
  // The HTTP status is not told, but the text of Redis begins with a code in capitals.
  return isRedisText(text) ? new ReplyError(text) : new Error(scrub(text || error.name));
}

function checkInstance(redis: UpstashRedis): void {
  const has = (method: string): boolean => typeof field(redis, method) === "function";
  let problem: string | undefined;
  if (has("call")) problem = "it is one of ioredis: wrap it with ioredisClient";
  else if (!has("exec") && has("sendCommand")) problem = "it has no exec method: wrap it with nodeRedisClient";
  else if (!has("exec") && has("execute")) problem = "it has no exec method: use it as it is";
  else if (!has("exec")) problem = "it has no exec method: update @upstash/redis to 1.35.2 or later";
  else if (/\/\/[^/]*@/.test(String(field(field(redis, "client"), "baseUrl")))) problem = "its URL brings credentials";
  else problem = madeUpReplies(redis);
  if (problem) throw new LockError("config", `Cannot use the client as one of @upstash/redis as ${problem}`);
}

function madeUpReplies(redis: UpstashRedis): string | undefined {
  // Before 1.35.2 automatic pipelining made exec anew at each read: it sent the neighbours twice, and gave us their replies.
  const { exec } = redis;
  if (redis.exec !== exec && exec.name === "") return "its automatic pipelining mixes up replies: update to 1.35.2";
  const settings = field(field(redis, "client"), "options");
  const [signal, cache] = [field(settings, "signal"), field(settings, "cache")];
  // Once aborted, such a signal's reason is given as the reply to every command: abort(1) would be a release.
  if (typeof signal === "object" && signal !== null) {
    return "its signal must be a function, such as () => AbortSignal.timeout(5000): current value is an object";
  }
  // Where fetch has a cache for POST, as in Next.js, an extend would be answered with what the one before was told.
  if (typeof cache === "string" && !/^(no-store|no-cache|reload)$/.test(cache)) {
    return `its cache must be "no-store": current value is "${cache}"`;
  }
  return undefined;
}

function hostOf(redis: UpstashRedis): string | undefined {
  const url = field(field(redis, "client"), "baseUrl");
  return typeof url === "string" && URL.canParse(url) ? new URL(url).host : undefined;
}
