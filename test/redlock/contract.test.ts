/** A Redlock keeps to all that a lock must keep to, over any number of nodes and any mix of clients. */
import { Redis } from "ioredis";
import { ioredisClient } from "../../adapters/ioredis.ts";
import { memoryClient } from "../../adapters/memory/index.ts";
import { restClient } from "../../adapters/rest.ts";
import type { CommandClient } from "../../src/command.ts";
import { createRedlock } from "../../src/redlock.ts";
import { lockContract } from "../contract/lock.ts";
import { describeRedis, startRedis, startRestServer } from "../support/redis.ts";
import { virtualEnvironment } from "../support/virtual-clock.ts";
import { patient } from "./fleet.ts";

for (const count of [1, 2, 3, 4, 5]) {
  lockContract(`createRedlock() over ${count} × memoryClient()`, async () => {
    const env = virtualEnvironment();
    const clients = Array.from({ length: count }, () => memoryClient({}, env));
    return { createLock: (options) => createRedlock(clients, options, env), clients, env, close: async () => {} };
  });
}

describeRedis("createRedlock()", () => {
  for (const count of [1, 3, 5]) {
    lockContract(`over ${count} servers, by ioredis and restClient() in turns`, async () => {
      const stack = new AsyncDisposableStack();
      const clients: CommandClient[] = [];
      for (let place = 1; place <= count; place += 1) {
        const server = await startRedis();
        stack.defer(server.stop);
        const redis = new Redis(server.port);
        stack.defer(() => redis.disconnect());
        const direct = ioredisClient(redis);
        if (place % 2) {
          const { url, token, stop } = await startRestServer(direct);
          stack.defer(stop);
          clients.push(restClient({ url, token }));
        } else clients.push(direct);
      }
      const nodes = clients.map(inOrder);
      const tracked = nodes.map(({ client }) => client);
      return {
        createLock: (options) => createRedlock(tracked, options, patient),
        clients: nodes.map(({ after }) => after),
        close: () => stack.disposeAsync(),
      };
    });
  }
});

/**
 * A client, and one that sends only once nothing else is under way there: a quorum is decided before all have answered,
 * and a look at all nodes must not overtake what was sent before it.
 */
function inOrder(client: CommandClient): { readonly client: CommandClient; readonly after: CommandClient } {
  const underWay = new Set<Promise<unknown>>();
  return {
    client: {
      ...client,
      execute(command, options) {
        const reply = client.execute(command, options);
        underWay.add(reply);
        const done = (): unknown => underWay.delete(reply);
        reply.then(done, done);
        return reply;
      },
    },
    after: {
      ...client,
      async execute(command, options) {
        await Promise.allSettled(underWay);
        return client.execute(command, options);
      },
    },
  };
}
