/**
 * Collects the commands of one microtask drain and sends them together; each keeps its own reply, error and signal.
 *
 * @module
 */
import type { Command, CommandClient, Reply, Signal } from "../src/command.ts";
import { type Body, replyAt } from "./rest-reply.ts";

/** Sends a batch as one request. */
export type SendBatch = (commands: readonly Command[], signal: Signal) => Promise<Body>;

interface Batch {
  /** In order; a caller who gives up leaves it. */
  readonly members: Set<Member>;
  /** Ends the request, when all have given up. */
  readonly request: AbortController;
}

interface Member {
  readonly command: Command;
  /** Gives the caller what `read` returns or throws. */
  settle(read: () => Reply): void;
}

const maxCommands = 1000;

// How many turns of the microtask queue a batch stays open; 64 cost 2 µs. Measured with 64 loops of lock cycles
// over Node 24: alike loops need 1 to share every request, acquire mixed with withLock 4, callers with up to n further
// awaits in between about n.
const turnsOpen = 64;

/** An `execute` that batches. An aborted command leaves the others; the request is aborted when all of them are. */
export function batching(send: SendBatch): CommandClient["execute"] {
  let open: Batch | undefined;

  const flush = async (batch: Batch): Promise<void> => {
    for (let turn = 0; turn < turnsOpen; turn += 1) await undefined;
    if (open === batch) open = undefined;
    const sent = [...batch.members];
    if (sent.length === 0) return;
    const reading = await send(
      sent.map(({ command }) => command),
      batch.request.signal,
    ).then(
      (body) => (place: number) => replyAt(body, place, sent.length),
      (error: unknown) => () => {
        throw error;
      },
    );
    // All in one go, so that callers in lockstep have their next commands in one batch again.
    for (const [place, { settle }] of sent.entries()) settle(() => reading(place));
  };

  return (command, { signal } = {}) =>
    new Promise((resolve, reject) => {
      if (signal?.aborted) return reject(signal.reason);
      if (!open || open.members.size === maxCommands) {
        open = { members: new Set(), request: new AbortController() };
        void flush(open);
      }
      const { members, request } = open;
      const onAbort = (): void => {
        members.delete(member);
        if (members.size === 0) request.abort();
        reject(signal?.reason);
      };
      const member: Member = {
        command,
        settle(read) {
          signal?.removeEventListener("abort", onAbort);
          try {
            resolve(read());
          } catch (error) {
            reject(error);
          }
        },
      };
      members.add(member);
      signal?.addEventListener("abort", onAbort);
    });
}
