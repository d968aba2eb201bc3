/**
 * Five `redis-server` processes, each behind a delaying TCP proxy, reached by ioredis and REST in turns: to be paused,
 * killed, restarted empty and moved far away.
 *
 * @module
 */
import { createServer as createHttpServer, type IncomingMessage, request } from "node:http";
import { connect, createServer, type Socket } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { Redis } from "ioredis";
import { ioredisClient } from "../../adapters/ioredis.ts";
import { restClient } from "../../adapters/rest.ts";
import { systemClock } from "../../src/clock.ts";
import type { CommandClient } from "../../src/command.ts";
import type { Environment } from "../../src/environment.ts";
import { currentHost } from "../../src/host.ts";
import { systemRandom } from "../../src/random.ts";
import { listen, type RunningRedis, startRedis, startRestServer } from "../support/redis.ts";

/**
 * The real environment for a machine that is busy with other tests, where a pause may be longer than the least time-out:
 * whatever is to take 100 ms or more may take a second.
 */
export const patient: Environment = {
  clock: {
    now: systemClock.now,
    after: (ms, keepsAlive, callback) => systemClock.after(ms < 100 ? ms : Math.max(ms, 1_000), keepsAlive, callback),
  },
  random: systemRandom,
  host: currentHost(),
};

/** One node of the fleet. */
export interface Ship {
  readonly client: CommandClient;
  /** A way to the server that no trouble delays. It fails while the server is stopped or gone. */
  readonly direct: Redis;
  /** How long a request and its reply are under way together. */
  roundTripMs: number;
  hang(): void;
  resume(): void;
  kill(): Promise<void>;
  /** Starts an empty server in the place of the one that was killed. */
  restart(): Promise<void>;
}

/** Starts so many, the first behind REST, the second behind TCP, and so on. */
export async function startFleet(stack: AsyncDisposableStack, count: number): Promise<Ship[]> {
  const ships: Ship[] = [];
  for (let place = 0; place < count; place += 1) ships.push(await launch(stack, `ship ${place + 1}`, place % 2 === 0));
  return ships;
}

async function launch(stack: AsyncDisposableStack, label: string, overRest: boolean): Promise<Ship> {
  let server: RunningRedis = await startRedis();
  const { port } = server;
  stack.defer(() => server.stop());
  const proxy = await startDelay(port);
  stack.defer(proxy.stop);
  const retryStrategy = (): number => 20;
  const redis = new Redis({ port: proxy.port, retryStrategy, maxRetriesPerRequest: 0, enableOfflineQueue: false });
  const direct = new Redis({ port, retryStrategy, maxRetriesPerRequest: null });
  for (const one of [redis, direct]) {
    one.on("error", () => {}); // a killed server is what it is for
    stack.defer(() => one.disconnect());
  }
  await direct.ping();
  while (redis.status !== "ready") await sleep(5);

  let client: CommandClient = ioredisClient(redis, { label });
  if (overRest) {
    const rest = await startRestServer(client);
    stack.defer(rest.stop);
    client = restClient({ url: rest.url, token: rest.token, label });
  }
  return {
    client,
    direct,
    get roundTripMs() {
      return 2 * proxy.delayMs;
    },
    set roundTripMs(ms) {
      proxy.delayMs = ms / 2;
    },
    hang: () => void process.kill(server.pid, "SIGSTOP"),
    resume: () => void process.kill(server.pid, "SIGCONT"),
    kill: () => server.stop(),
    async restart() {
      server = await startRedis({ args: ["--port", `${port}`] });
      while (redis.status !== "ready") await sleep(5);
      await direct.ping();
    },
  };
}

/** A TCP proxy that holds back each way by so many ms. */
export async function startDelay(to: number): Promise<{ port: number; delayMs: number; stop(): Promise<void> }> {
  const sockets = new Set<Socket>();
  const proxy = { port: 0, delayMs: 0, stop: async (): Promise<void> => {} };
  const pipe = (from: Socket, into: Socket): void => {
    sockets.add(from);
    from.setNoDelay(true);
    from.on("data", (chunk) => void setTimeout(() => into.writable && into.write(chunk), proxy.delayMs));
    from.on("error", () => into.destroy());
    from.on("close", () => {
      sockets.delete(from);
      into.destroy();
    });
  };
  const server = createServer((near) => {
    const far = connect(to, "127.0.0.1");
    pipe(near, far);
    pipe(far, near);
  });
  proxy.port = await listen(server);
  proxy.stop = () =>
    new Promise((resolve) => {
      server.close(() => resolve());
      for (const socket of sockets) socket.destroy();
    });
  return proxy;
}

/** An HTTP proxy that can keep requests and deliver them when their senders have long gone. */
export interface HoldingProxy {
  readonly url: string;
  /** From now on requests whose body has this text are kept. */
  holdBack(text: string | undefined): void;
  /** How many are kept. */
  readonly kept: number;
  /** Sends on what is kept, and gives what came back. */
  deliver(): Promise<string[]>;
}

export async function startHolding(stack: AsyncDisposableStack, target: string): Promise<HoldingProxy> {
  let held: string | undefined;
  const kept: (() => Promise<string>)[] = [];
  const server = createHttpServer((near, reply) => {
    void bodyOf(near).then(async (body) => {
      const send = (): Promise<string> => post(target, near, body);
      if (held !== undefined && body.includes(held)) {
        kept.push(send);
        return;
      }
      const text = await send();
      reply.writeHead(200, { "content-type": "application/json" }).end(text);
    });
  });
  const port = await listen(server);
  stack.defer(
    () =>
      new Promise<void>((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  );
  return {
    url: `http://127.0.0.1:${port}`,
    holdBack(text) {
      held = text;
    },
    get kept() {
      return kept.length;
    },
    deliver: () => Promise.all(kept.splice(0).map((send) => send())),
  };
}

function post(target: string, { headers }: IncomingMessage, body: string): Promise<string> {
  return new Promise((resolve, reject) => {
    const { authorization } = headers;
    const options = {
      method: "POST",
      headers: { ...(authorization && { authorization }), "content-type": "application/json" },
    };
    const far = request(target, options, (answer) => void bodyOf(answer).then(resolve, reject));
    far.on("error", reject);
    far.end(body);
  });
}

async function bodyOf(message: IncomingMessage): Promise<string> {
  let body = "";
  for await (const chunk of message) body += String(chunk);
  return body;
}
