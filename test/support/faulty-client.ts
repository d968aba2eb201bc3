/** A client whose network a test owns: what is late, lost, doubled or answered with an error. */
import type { Clock } from "../../src/clock.ts";
import { type Command, type CommandClient, type Reply, untilAborted } from "../../src/command.ts";

/** What happens to one command. Nothing by default. */
export interface Fault {
  /** How long it is under way before it runs. */
  readonly requestMs?: number;
  /** How long its reply is under way. */
  readonly replyMs?: number;
  /** The request never arrives, or runs and its reply never comes: the caller hears nothing until its own time-out. */
  readonly lose?: "request" | "reply";
  /** The caller gets this error; the command runs first if `lose` is "reply". */
  readonly fail?: Error;
  /** A copy that arrives this long after the first one ran. */
  readonly againMs?: number;
  /** What the caller gets in place of the real reply. */
  readonly answer?: Reply | undefined;
}

export interface FaultyClient extends CommandClient {
  /** Commands handed over so far. */
  readonly sent: Command[];
  /** Their first words, to be counted. */
  readonly verbs: readonly string[];
}

/** Wraps a client; `decide` is asked before each command, with its place from 0. */
export function faultyClient(
  client: CommandClient,
  clock: Clock,
  decide: (command: Command, place: number) => Fault | undefined = () => undefined,
): FaultyClient {
  const sent: Command[] = [];
  const pass = (ms: number): Promise<void> => new Promise((resolve) => void clock.after(ms, true, resolve));
  const run = async (command: Command, fault: Fault): Promise<Reply> => {
    if (fault.requestMs) await pass(fault.requestMs);
    if (fault.fail && fault.lose !== "reply") throw fault.fail;
    if (fault.lose === "request") return new Promise(() => {});
    const reply = await client.execute(command);
    if (fault.againMs !== undefined) void pass(fault.againMs).then(() => client.execute(command));
    if (fault.fail) throw fault.fail;
    if (fault.lose === "reply") return new Promise(() => {});
    if (fault.replyMs) await pass(fault.replyMs);
    return fault.answer === undefined ? reply : fault.answer;
  };
  return {
    label: client.label,
    sent,
    get verbs() {
      return sent.map(([verb]) => String(verb));
    },
    execute(command, { signal } = {}) {
      const fault = decide(command, sent.length) ?? {};
      sent.push(command);
      return untilAborted(run(command, fault), signal);
    },
  };
}
