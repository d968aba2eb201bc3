/**
 * Serves the page and the monitor on Node.js.
 *
 * @module
 */
import { createServer } from "node:http";
import { getRequestListener } from "@hono/node-server";
import { Hono } from "hono";
import { isLoopback, type MonitorSettings, monitor } from "./monitor.ts";
import { pageFiles, pageHeaders } from "./page.ts";
import type { Queue } from "./queue.ts";

/** Where it listens, and who may ask. */
export interface ServeSettings extends Partial<MonitorSettings> {
  /** @default {"127.0.0.1"} */
  readonly host?: string;
  /** @default {a free one} */
  readonly port?: number;
}

/** A server that runs. */
export interface Served {
  readonly url: string;
  close(): Promise<void>;
}

/**
 * Starts it.
 *
 * @throws TypeError when it would listen on more than a loopback address and has no token
 */
export async function serveMonitor(queue: Queue, settings: ServeSettings = {}): Promise<Served> {
  const { host = "127.0.0.1", port = 0, token } = settings;
  if (token === undefined && !isLoopback(host)) {
    throw new TypeError(`Cannot listen on ${host} without a token: whoever reaches it could take tasks away`);
  }
  const app = new Hono();
  app.use(async (c, next) => {
    await next();
    for (const [name, value] of Object.entries(pageHeaders)) c.header(name, value);
  });
  for (const { path, type, text } of await pageFiles()) {
    app.get(path === "index.html" ? "/" : `/${path}`, (c) => c.body(text, 200, { "content-type": type }));
  }
  app.route("/", monitor(queue, { ...settings, token }));

  const server = createServer(getRequestListener(app.fetch, { overrideGlobalObjects: false }));
  await new Promise<void>((resolve, reject) => {
    server.once("error", reject);
    server.listen(port, host, resolve);
  });
  const address = server.address();
  const bound = typeof address === "object" && address !== null ? address.port : port;
  return {
    url: `http://${host.includes(":") ? `[${host}]` : host}:${bound}`,
    close: async () => {
      const closed = new Promise((resolve) => server.close(resolve));
      server.closeAllConnections();
      await closed;
    },
  };
}
