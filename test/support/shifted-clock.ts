/**
 * A Redis whose clock is wrong, as far as TIME tells: a TCP proxy that shifts its reply.
 *
 * @module
 */
import { connect, createServer, type Socket } from "node:net";
import { listen } from "./redis.ts";

/** Two bulk strings of digits, the first of ten: no other reply looks so. */
const timeReply = /\*2\r\n\$10\r\n(\d{10})\r\n/g;

/** Starts it in front of the server on this port; `stop` ends it and all its connections. */
export async function startShiftedClock(
  to: number,
  aheadSeconds: number,
): Promise<{ readonly port: number; stop(): Promise<void> }> {
  const sockets = new Set<Socket>();
  const server = createServer((near) => {
    const far = connect(to, "127.0.0.1");
    far.on("data", (chunk) => {
      const text = chunk.toString("latin1");
      const shifted = text.replace(timeReply, (_, seconds) => `*2\r\n$10\r\n${Number(seconds) + aheadSeconds}\r\n`);
      near.write(shifted, "latin1");
    });
    near.on("data", (chunk) => void far.write(chunk));
    for (const [one, other] of [
      [near, far],
      [far, near],
    ] as const) {
      sockets.add(one);
      one.setNoDelay(true);
      one.on("error", () => other.destroy());
      one.on("close", () => {
        sockets.delete(one);
        other.destroy();
      });
    }
  });
  const port = await listen(server);
  const stop = (): Promise<void> =>
    new Promise((resolve) => {
      server.close(() => resolve());
      for (const socket of sockets) socket.destroy();
    });
  return { port, stop };
}
