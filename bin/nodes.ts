/**
 * From the URLs of the command line to clients. Passwords and tokens come from there too, or from the environment and
 * files; none of them is ever part of a label or a message.
 *
 * @module
 */
import { isIP } from "node:net";
import { Redis, type RedisOptions } from "ioredis";
import { type CommandClient, ReplyError } from "leasehold";
import { ioredisClient } from "leasehold/ioredis";
import { restClient } from "leasehold/rest";
import type { Values } from "./arguments.ts";
import { UsageError } from "./exit.ts";
import { tokensOf } from "./tokens.ts";

/** The clients, in the order of the URLs. */
export interface Nodes {
  readonly clients: readonly CommandClient[];
  /** "3 nodes". */
  readonly count: string;
  /** Opens the connections, so that no round trip is measured with it. What fails will be told by what is asked next. */
  greet(): Promise<void>;
  close(): void;
}

/** Opens no connection yet. */
export function openNodes(values: Values): Nodes {
  const { node: urls = [] } = values;
  const { UPSTASH_REDIS_REST_URL, REDIS_URL } = process.env;
  const usual = UPSTASH_REDIS_REST_URL || REDIS_URL;
  const given = urls.length > 0 ? urls : usual ? [usual] : [];
  if (given.length === 0) {
    throw new UsageError("Cannot go on without a node: give --node URL, or set UPSTASH_REDIS_REST_URL or REDIS_URL");
  }
  const parsed = given.map((text, index) => parseNode(text, index + 1));
  const tokens = tokensOf(values, parsed.filter(isRest).length);
  const opened: Redis[] = [];
  const clients = parsed.map((url) => {
    if (isRest(url)) return restClient({ url: url.href, token: tokens.shift() });
    const redis = new Redis({ ...addressOf(url), ...oneTry });
    opened.push(redis);
    return tcpClient(redis, url);
  });
  return {
    clients,
    count: clients.length === 1 ? "1 node" : `${clients.length} nodes`,
    async greet() {
      const signal = AbortSignal.timeout(greetingMs);
      const late = new Promise<void>((resolve) => signal.addEventListener("abort", () => resolve()));
      const greeted = clients.map((client) => client.execute(["PING"], { signal }).catch(() => {}));
      await Promise.race([Promise.all(greeted), late]);
    },
    close: () => opened.forEach((redis) => void redis.disconnect()),
  };
}

/** One URL of a Redis over TCP, for a server that lives on: it connects again and again, and never repeats a command. */
export function openRedis(text: string): { readonly client: CommandClient; readonly redis: Redis } {
  const url = parseNode(text, 0);
  if (isRest(url)) throw new UsageError("Cannot use --redis as it must be a redis:// or rediss:// URL");
  const redis = new Redis({ ...addressOf(url), ...always, maxRetriesPerRequest: 0, enableOfflineQueue: false });
  return { redis, client: ioredisClient(redis, { label: labelOf(url) }) };
}

function isRest({ protocol }: URL): boolean {
  return protocol === "https:" || protocol === "http:";
}

function parseNode(text: string, place: number): URL {
  const which = place === 0 ? "--redis" : `node ${place}`;
  if (!URL.canParse(text))
    throw new UsageError(`Cannot use ${which} as it is not a URL: redis://host:6379, https://host`);
  const url = new URL(text);
  if (!/^(rediss?|https?):$/.test(url.protocol)) {
    throw new UsageError(`Cannot use ${which} as it is neither a redis:// nor an https:// URL`);
  }
  const isLocal = /^(localhost|127\.[\d.]+|\[::1\])$/.test(url.hostname);
  if (url.protocol === "http:" && !isLocal) {
    process.stderr.write(
      `The token goes to ${url.host} without encryption: use https:// on a network you do not trust\n`,
    );
  }
  if (isRest(url) && (url.username || url.password || url.search)) {
    throw new UsageError(`Cannot use ${which} as its URL holds credentials or a query: give the token as --help says`);
  }
  return url;
}

/** Never more than host, port and database. */
function labelOf({ hostname, port, pathname }: URL): string {
  const database = pathname.length > 1 && pathname !== "/0" ? pathname : "";
  return `${hostname || "localhost"}:${port || 6379}${database}`;
}

interface Address {
  readonly host: string;
  readonly port: number;
  readonly db: number;
  readonly username?: string;
  readonly password?: string;
  readonly tls?: { readonly servername?: string };
}

function addressOf(url: URL): Address {
  const { hostname, port, username, password, pathname, protocol } = url;
  const host = hostname.replace(/^\[|\]$/g, "") || "localhost";
  const database = pathname.slice(1);
  if (!/^\d*$/.test(database))
    throw new UsageError(`Cannot use the node ${host} as its path must be a database's number`);
  const secret = decoded(password) || process.env.REDISCLI_AUTH;
  return {
    host,
    port: Number(port || 6379),
    db: Number(database),
    ...(username && { username: decoded(username) }),
    ...(secret && { password: secret }),
    ...(protocol === "rediss:" && { tls: isIP(host) ? {} : { servername: host } }),
  };
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text; // a password with a percent sign that stands for itself
  }
}

/** So long a silent node may hold up the others. */
const greetingMs = 1_000;

const always = {
  lazyConnect: true,
  protocol: 2, // so that a server of any age is greeted in a way that it knows
  enableReadyCheck: false, // it asks INFO, which may be refused
  disableClientInfo: true,
  autoResendUnfulfilledCommands: false,
  connectTimeout: 2_500,
} as const satisfies RedisOptions;

const oneTry = { ...always, maxRetriesPerRequest: 0, retryStrategy: () => null } as const satisfies RedisOptions;

/** Connects at the first command, and tells why it could not. */
function tcpClient(redis: Redis, url: URL): CommandClient {
  const scriptHeader = url.hostname.endsWith(".upstash.io") ? "#!lua flags=allow-key-locking" : undefined;
  const client = ioredisClient(redis, { label: labelOf(url), scriptHeader });
  let trouble: unknown;
  redis.on("error", (error) => {
    trouble ??= error;
  });
  let connected: Promise<void> | undefined;
  return {
    ...client,
    async execute(command, options) {
      connected ??= redis.connect().catch((error: unknown) => {
        throw plain(trouble ?? error);
      });
      await connected;
      if (trouble) throw plain(trouble);
      return client.execute(command, options);
    },
  };
}

/** The text alone: ioredis hangs the command that failed on its errors, and with AUTH that is the password. */
function plain(error: unknown): Error {
  const { name, message, code } = Object(error) as { name?: string; message?: string; code?: string };
  const text = message || code || "no connection"; // of a host with two addresses there is a code alone
  return name === "ReplyError" ? new ReplyError(text) : new Error(text);
}
