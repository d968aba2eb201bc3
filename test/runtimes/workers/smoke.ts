/**
 * A Worker that runs locks and a guarded cache inside workerd and answers with what it saw, as JSON.
 *
 * @module
 */

import { Redis } from "@upstash/redis/cloudflare";
import { type Cache, createCache, createLock, type Lock } from "leasehold";
import { bunClient } from "leasehold/bun";
import { ioredisClient } from "leasehold/ioredis";
import { memoryClient } from "leasehold/memory";
import { nodeRedisClient } from "leasehold/node-redis";
import { openTelemetryObserver } from "leasehold/opentelemetry";
import { prometheusObserver } from "leasehold/prometheus";
import { restClient } from "leasehold/rest";
import { restServer } from "leasehold/rest-server";
import { upstashClient } from "leasehold/upstash";
import { cycle, runScenario } from "../scenario.ts";
// First, so that it sees what the imports below do.
import { spring } from "./trap.ts";

interface Env {
  readonly REST_URLS: readonly [string, string, string];
  readonly REST_TOKEN: string;
}

interface Context {
  waitUntil(work: Promise<unknown>): void;
}

const pause = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));

// At global scope, as an application's modules do it: all of this must be inert.
const idleClient = restClient({ url: "https://nowhere.example", token: "none" });
createLock(idleClient);
createCache(idleClient);
createLock(memoryClient());
restServer(memoryClient(), { token: "none" });
const foreign = { call: async () => null, sendCommand: async () => null, send: async () => null };
for (const client of [bunClient(foreign), ioredisClient(foreign)]) createLock(client);
createLock(nodeRedisClient({ sendCommand: foreign.sendCommand }));
openTelemetryObserver({ createCounter: () => ({ add() {} }), createHistogram: () => ({ record() {} }) });
if (typeof prometheusObserver !== "function") throw new TypeError("There is no observer for Prometheus");
Math.random(); // a breach, to show that the traps work
const touchedAtImport = spring();

// Made by the first request and used by all later ones: they hold settings, and nothing that belongs to a request.
let lock: Lock | undefined;
let cache: Cache | undefined;
const builds = new Map<string, number>();

function sharedLock({ REST_URLS: [url], REST_TOKEN: token }: Env): Lock {
  lock ??= createLock(restClient({ url, token }));
  return lock;
}

function sharedCache({ REST_URLS: [url], REST_TOKEN: token }: Env): Cache {
  cache ??= createCache(restClient({ url, token }));
  return cache;
}

function facts(): unknown {
  let cacheField = true;
  try {
    new Request("http://x", { cache: "no-store" });
  } catch {
    cacheField = false;
  }
  return { runtime: navigator.userAgent, touchedAtImport, cacheField };
}

/** A read whose build takes a while, then a turn under a lock that all readers share. */
async function read(env: Env, name: string, buildMs: number, waitUntil?: Context["waitUntil"]): Promise<unknown> {
  const options = { freshMs: 60_000, leaseMs: buildMs + 1_000, waitUntil };
  const { value, status } = await sharedCache(env).getEntry(name, options, async () => {
    const count = (builds.get(name) ?? 0) + 1;
    builds.set(name, count);
    await pause(buildMs);
    return `build ${count}`;
  });
  const fence = await sharedLock(env).withLock(name, { waitMs: 50_000 }, (lease) => lease.fence);
  return { value, status, fence };
}

const worker = {
  async fetch(request: Request, env: Env, context: Context): Promise<Response> {
    const { pathname, searchParams } = new URL(request.url);
    const name = searchParams.get("name") ?? "";
    const buildMs = Number(searchParams.get("buildMs"));
    const waitUntil = (work: Promise<unknown>): void => context.waitUntil(work);
    const scenarios: Record<string, () => unknown> = {
      "/facts": facts,
      "/scenario": () => runScenario({ urls: env.REST_URLS, token: env.REST_TOKEN, name }),
      "/upstash": () => {
        const redis = new Redis({ url: env.REST_URLS[0], token: env.REST_TOKEN, enableTelemetry: false });
        return cycle(createLock(upstashClient(redis)), name);
      },
      "/read": () => read(env, name, buildMs),
      "/read-with-waitUntil": () => read(env, name, buildMs, waitUntil),
      "/builds": () => builds.get(name) ?? 0,
      "/invalidate": async () => (await sharedCache(env).invalidate(name)) ?? "done",
    };
    const scenario = scenarios[pathname];
    return scenario === undefined ? new Response(null, { status: 404 }) : Response.json(await scenario());
  },
};

export default worker;
