/**
 * Collects the commands of one microtask drain and sends them together; each keeps its own reply, error and signal.
 *
 * @module
 */
import { type Command, type CommandClient, type Reply, type Signal, untilAborted } from "../src/command.ts";
import { type Body, replyAt } from "./rest-reply.ts";

/** Sends a batch as one request. */
export type SendBatch = (commands: readonly Command[], signal: Signal) => Promise<Body>;

interface Batch {
  /** In order. A caller leaves it once served, or on giving up. */
  readonly members: Set<Member>;
  readonly request: AbortController;
  /** Reads a member's reply from the answer. */
  readonly answered: Promise<(member: Member) => Reply>;
}

interface Member {
  readonly command: Command;
}

/** An `execute` that batches. An aborted command leaves the others; the request is aborted when all of them are. */
export function batching(send: SendBatch): CommandClient["execute"] {
  const maxCommands = 1_000;
  // How many turns of the microtask queue a batch stays open; 64 cost 2 µs. Measured with 64 loops of lock cycles over
  // Node 24: alike loops need 1 to share every request, acquire mixed with withLock 4, callers with up to n further
  // awaits in between about n.
  const turnsOpen = 64;
  let open: Batch | undefined;

  const begin = (): Batch => {
    const members = new Set<Member>();
    const request = new AbortController();
    const flush = async () => {
      for (let turn = 0; turn < turnsOpen; turn += 1) await undefined;
      if (open === batch) open = undefined;
      const sent = [...members];
      const commands = sent.map(({ command }) => command);
      const body = await send(commands, request.signal);
      return (member: Member) => replyAt(body, sent.indexOf(member), sent.length);
    };
    const batch = { members, request, answered: flush() };
    return batch;
  };

  return async (command, { signal } = {}) => {
    if (signal?.aborted) throw signal.reason;
    if (!open || open.members.size === maxCommands) open = begin();
    const { members, request, answered } = open;
    const member = { command };
    members.add(member);
    try {
      const read = await untilAborted(answered, signal);
      return read(member);
    } finally {
      members.delete(member);
      if (!members.size) request.abort(); // nobody waits for it any more
    }
  };
}
