/** REST servers whose sockets are dead when they are used. */
import { createServer } from "node:http";
import type { Socket } from "node:net";
import { getRequestListener } from "@hono/node-server";
import { memoryClient } from "../../adapters/memory/index.ts";
import { restServer } from "../../adapters/rest-server.ts";
import { listen } from "./redis.ts";

/** What a server does to its sockets. */
export const deaths = [
  "closes the socket right after each response",
  "closes idle sockets without a word",
  "runs every third request, and resets its socket before the response",
] as const;

/** A server that does one of these. */
export interface DyingServer {
  readonly url: string;
  readonly token: string;
  requests(): number;
  /** To be called before a request, on which nothing else is under way: a server that closes idle sockets does it here. */
  idle(): void;
  stop(): void;
}

export async function startDyingServer(death: (typeof deaths)[number]): Promise<DyingServer> {
  const token = "token";
  const app = restServer(memoryClient(), { token });
  const handle = getRequestListener(app.fetch, { overrideGlobalObjects: false });
  const sockets = new Set<Socket>();
  let requests = 0;
  const server = createServer(async (request, response) => {
    requests += 1;
    if (death === deaths[0]) response.once("finish", () => request.socket.destroy());
    if (death !== deaths[2] || requests % 3 !== 0) return handle(request, response);
    let body = "";
    for await (const chunk of request) body += chunk;
    const { authorization = "" } = request.headers;
    await app.fetch(new Request("http://127.0.0.1/", { method: "POST", headers: { authorization }, body }));
    request.socket.resetAndDestroy();
  });
  server.on("connection", (socket) => sockets.add(socket));
  return {
    url: `http://127.0.0.1:${await listen(server)}`,
    token,
    requests: () => requests,
    idle() {
      if (death === deaths[1]) for (const socket of sockets) socket.destroy();
      sockets.clear();
    },
    stop: () => server.close().closeAllConnections(),
  };
}
