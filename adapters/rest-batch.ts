/**
 * Collects the commands of one microtask drain and sends them together; each keeps its own reply, error and signal.
 *
 * @module
 */
import { type Command, type CommandClient, type Reply, type Signal, untilAborted } from "../src/command.ts";

/** Sends a batch. The result reads the reply to the command at an index, or throws its error. */
export type SendBatch = (commands: readonly Command[], signal: Signal) => Promise<(index: number) => Reply>;

interface Member {
  readonly command: Command;
  readonly signal: Signal | undefined;
  resolve(reply: Reply): void;
  reject(error: unknown): void;
}

const maxCommands = 1000;

// How many turns of the microtask queue a batch stays open; 64 cost 2 µs. Measured with 64 loops of lock cycles
// over Node 24: alike loops need 1 to share every request, acquire mixed with withLock 4, callers with up to n further
// awaits in between about n.
const turnsOpen = 64;

/** An `execute` that batches. An aborted command leaves the others; the request is aborted when all of them are. */
export function batching(send: SendBatch): CommandClient["execute"] {
  let open: Member[] | undefined;

  async function sendLater(batch: Member[]): Promise<void> {
    for (let turn = 0; turn < turnsOpen; turn++) await undefined;
    if (open === batch) open = undefined;
    await sendNow(send, batch);
  }

  return (command, { signal } = {}) => {
    const reply = new Promise<Reply>((resolve, reject) => {
      if (open === undefined || open.length === maxCommands) {
        open = [];
        void sendLater(open);
      }
      open.push({ command, signal, resolve, reject });
    });
    return untilAborted(reply, signal);
  };
}

/** Never rejects: every error goes to the members. */
async function sendNow(send: SendBatch, batch: readonly Member[]): Promise<void> {
  const members = batch.filter(({ signal }) => !signal?.aborted);
  if (members.length === 0) return;
  const request = new AbortController();
  const onAbort = (): void => {
    if (members.every(({ signal }) => signal?.aborted)) request.abort();
  };
  for (const { signal } of members) signal?.addEventListener("abort", onAbort);
  try {
    const commands = members.map(({ command }) => command);
    const read = await send(commands, request.signal);
    // All in one go, so that callers in lockstep have their next commands in one batch again.
    for (const [index, member] of members.entries()) settle(member, () => read(index));
  } catch (error) {
    for (const { reject } of members) reject(error);
  } finally {
    for (const { signal } of members) signal?.removeEventListener("abort", onAbort);
  }
}

function settle({ resolve, reject }: Member, read: () => Reply): void {
  try {
    resolve(read());
  } catch (error) {
    reject(error);
  }
}
