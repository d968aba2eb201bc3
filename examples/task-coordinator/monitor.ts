/**
 * The monitoring endpoint: what is going on in a queue, once or as it changes, and the three things that an operator may do.
 *
 * @module
 */
import { Hono, type MiddlewareHandler } from "hono";
import { bearerAuth } from "hono/bearer-auth";
import { streamSSE } from "hono/streaming";
import { pause } from "./pause.ts";
import type { Queue } from "./queue.ts";
import { readState, type State } from "./state.ts";

/** Who may ask, and how often Redis is asked in turn. */
export interface MonitorSettings {
  /**
   * What a caller must send as `authorization: Bearer …`. Undefined lets in whoever asks for a loopback address, so it is
   * for a server that listens on nothing else.
   */
  readonly token: string | undefined;
  /** Each open page asks Redis twice in so many ms. @default {1_000} */
  readonly everyMs?: number;
}

/** Serves `/api/state`, `/api/events` and the actions on `/api/tasks/<id>`. */
export function monitor(queue: Queue, { token, everyMs = 1_000 }: MonitorSettings): Hono {
  if (token !== undefined && !/^[\w.~+/-]+=*$/.test(token)) {
    throw new TypeError('Cannot use the token as it must be letters, digits, "-", ".", "_", "~", "+" and "/"');
  }
  const app = new Hono();
  app.use("/api/*", token === undefined ? loopbackOnly : bearerAuth({ token }));
  app.use("/api/*", async (c, next) => {
    await next();
    c.header("cache-control", "no-store");
  });

  app.get("/api/state", async (c) => c.json(await readState(queue)));

  app.get("/api/events", (c) =>
    streamSSE(c, async (stream) => {
      const gone = new AbortController();
      stream.onAbort(() => gone.abort());
      let [sent, sentAt] = ["", 0];
      while (!stream.aborted) {
        const state = await readState(queue).catch(() => null);
        const look = state === null ? "" : lookOf(state);
        // Now and then also what has not changed, so that the page knows that it still listens.
        if (look !== sent || Date.now() - sentAt > 10_000) {
          const message =
            state === null ? { event: "unavailable", data: "" } : { event: "state", data: JSON.stringify(state) };
          await stream.writeSSE(message);
          [sent, sentAt] = [look, Date.now()];
        }
        await pause(everyMs, gone.signal);
      }
    }),
  );

  const actions = {
    retry: (id: string) => queue.retry(id),
    discard: (id: string) => queue.discard(id),
    "take-back": async (id: string) => (await queue.recover(id, { force: true })) === "taken-back",
  };
  for (const [name, act] of Object.entries(actions)) {
    app.post(`/api/tasks/:id{[\\w.@-]{1,128}}/${name}`, async (c) => {
      const done = await act(c.req.param("id"));
      return done ? c.body(null, 204) : c.json({ error: "the task is not in that state any more" }, 409);
    });
  }

  app.onError((error, c) => {
    if ("getResponse" in error && typeof error.getResponse === "function") return error.getResponse();
    console.error(error);
    return c.json({ error: "Redis cannot be had" }, 503);
  });
  return app;
}

/** All but what changes by itself as time passes: a lease that was not renewed looks the same. */
function lookOf({ now, locks, ...rest }: State): string {
  const held = locks.map(({ remainingMs, ...lock }) => ({
    ...lock,
    endsAt: remainingMs && Math.round((now + remainingMs) / 250),
  }));
  return JSON.stringify({ ...rest, held });
}

/**
 * A page of another site must not act here through its visitor's browser: neither under a name that leads to this machine,
 * nor by a form. A browser tells both, and whoever is no browser has a shell on this machine anyway.
 */
const loopbackOnly: MiddlewareHandler = async (c, next) => {
  const { host, hostname } = new URL(c.req.url);
  const origin = c.req.header("origin");
  const isForeign = origin !== undefined && (!URL.canParse(origin) || new URL(origin).host !== host);
  if (!isLoopback(hostname) || (isForeign && c.req.method !== "GET")) return c.json({ error: "not from there" }, 403);
  return next();
};

/** Whether a host can be this machine alone. */
export function isLoopback(hostname: string): boolean {
  return /^(localhost|127(\.\d{1,3}){3}|\[?::1\]?)$/.test(hostname);
}
