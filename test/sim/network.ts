/** The way between a process and a node: late, lost, doubled, repeated, answered with an error or with rubbish. */
import { type Command, type CommandClient, type Reply, ReplyError } from "../../src/command.ts";
import { type Call, callOf } from "./call.ts";
import type { Fate } from "./fate.ts";
import type { SimNode } from "./node.ts";
import type { Process } from "./process.ts";
import type { Timeline } from "./timeline.ts";

export interface NetworkSettings {
  /** Median of one way, and its spread. */
  readonly oneWayMs: number;
  readonly sigma: number;
  /** How much longer each way to the last of several nodes takes. */
  readonly farMs: number;
  /** One reply in eight takes longer by up to this, though the node has answered in time. */
  readonly slowReplyMs: number;
  /**
   * Of every other grant the replies of all nodes but the first do: a majority that is late, which neither another node
   * makes up for nor any refusal has foretold.
   */
  readonly slowGrantMs: number;
  /** How often each goes wrong, from 0 to 1. */
  readonly faults: Readonly<Record<MessageFault, number>>;
}

export type MessageFault =
  | "tail"
  | "drop request"
  | "drop reply"
  | "reset"
  | "repeat"
  | "duplicate"
  | "error"
  | "rubbish"
  | "fabricate";

/** One logical request, as its sender sees it. */
export interface Message {
  /** By which its faults are known. */
  readonly name: string;
  readonly process: Process;
  readonly node: SimNode;
  readonly call: Call;
  readonly sentAt: number;
  /** What its sender has been told: nothing yet, a reply of the node, or anything else. */
  state: "open" | "definite" | "unknown";
}

/** Who looks on. */
export interface Witness {
  sent?(message: Message): void;
  /** Just before and just after a command runs on a node. */
  before?(node: SimNode, message: Message): void;
  after?(node: SimNode, message: Message): void;
  /** The sender has read a reply of the node. */
  answered?(message: Message, reply: Reply): void;
}

export class Network {
  readonly #timeline: Timeline;
  readonly #fate: Fate;
  readonly #settings: NetworkSettings;
  readonly witness: Witness;
  /** How many requests were sent. */
  sent = 0;
  /** How many had to wait for a connection. */
  queued = 0;
  readonly #lanes = new Map<Process, { readonly lanes: Lanes; readonly request: number }>();
  readonly #sentBy = new Map<Process, number>();
  /** By token. */
  readonly #tasks = new Map<string, string>();
  readonly #places = new Map<string, number>();

  constructor(timeline: Timeline, fate: Fate, settings: NetworkSettings, witness: Witness) {
    this.#timeline = timeline;
    this.#fate = fate;
    this.#settings = settings;
    this.witness = witness;
  }

  sentBy(process: Process): number {
    return this.#sentBy.get(process) ?? 0;
  }

  /** What one process sees of one node. */
  client(process: Process, node: SimNode): CommandClient {
    return {
      label: node.label,
      execute: (command, { signal } = {}) =>
        new Promise((resolve, reject) => {
          const call = callOf(command);
          const name = this.#nameOf(process, call, node);
          const message: Message = { name, process, node, call, sentAt: this.#timeline.now, state: "open" };
          this.sent += 1;
          this.#sentBy.set(process, this.sentBy(process) + 1);
          this.witness.sent?.(message);
          let leave = (): void => {};
          const settle = (said: Said): void => {
            leave();
            const { reply, error, definite } = said;
            if (reply === undefined) reject(error);
            else resolve(reply);
            if (message.state !== "open") return;
            message.state = definite ? "definite" : "unknown";
            signal?.removeEventListener("abort", onAbort);
            if (definite && reply !== undefined) this.witness.answered?.(message, reply);
          };
          const onAbort = (): void => {
            if (process.isDeaf) {
              message.state = "unknown";
              return;
            }
            // An SDK that makes a reply of the abort's reason, as @upstash/redis does with a signal of its own.
            const fabricates = this.#fate.fault(`fabricate ${name}`, this.#settings.faults.fabricate);
            if (fabricates) settle({ reply: this.#fate.pick(`fabricate what ${name}`, fabrications) });
            else settle({ error: signal?.reason });
          };
          signal?.addEventListener("abort", onAbort);
          if (signal?.aborted) return onAbort();
          leave = this.#lanesOf(process).enter(() => this.#send(message, command, settle));
        }),
    };
  }

  /** A Worker's request has six connections to all nodes together; the next one finds them all free. */
  #lanesOf(process: Process): Lanes {
    const { lanes, request } = this.#lanes.get(process) ?? {};
    if (lanes !== undefined && request === process.request) return lanes;
    const fresh = new Lanes(process.isWorker ? 6 : Infinity, () => {
      this.queued += 1;
    });
    this.#lanes.set(process, { lanes: fresh, request: process.request });
    return fresh;
  }

  /** Sends all copies of a request. */
  #send(message: Message, command: Command, settle: (said: Said) => void): void {
    const { name, process, node } = message;
    const fate = this.#fate;
    const odds = this.#settings.faults;
    // A transport that tries again by itself, below the client: whichever reply is first counts.
    const goesAgain = fate.fault(`repeat ${name}`, odds.repeat);
    const hears = (copy: number, last: boolean, said: Said): void => {
      const lost = process.cutOff.has(node) || fate.fault(`drop reply ${name}#${copy}`, odds["drop reply"]);
      const at =
        this.#timeline.now + node.farMs + this.#wayMs(`back ${name}#${copy}`) + this.#slowMs(message, said, copy);
      // A hidden try hides the failure of the one before.
      if (said.error !== undefined && !last) return;
      if (lost && fate.fault(`reset ${name}#${copy}`, last ? odds.reset : 0))
        process.at(at, () => settle({ error: new Error("socket hang up") }));
      else if (!lost) process.at(at, () => settle(this.#spoilt(`${name}#${copy}`, said)));
    };
    const transmit = (copy: number, last: boolean): void => {
      if (process.cutOff.has(node) || fate.fault(`drop request ${name}#${copy}`, odds["drop request"])) return;
      this.#timeline.after(node.farMs + this.#wayMs(`there ${name}#${copy}`), () => {
        hears(copy, last, this.#arrive(message, command, fate.fault(`error ${name}#${copy}`, odds.error)));
      });
    };
    transmit(0, !goesAgain);
    if (goesAgain) {
      process.at(this.#timeline.now + fate.uniform(`repeat when ${name}`, 20, 1_500), () => {
        if (message.state === "open") transmit(1, true);
      });
    }
    // A proxy that has sent it twice: nobody reads the second reply.
    if (fate.fault(`duplicate ${name}`, odds.duplicate)) {
      const lateMs = 8_000 * fate.chance(`duplicate when ${name}`) ** 3;
      this.#timeline.after(node.farMs + this.#wayMs(`there ${name}#0`) + lateMs, () =>
        this.#arrive(message, command, false),
      );
    }
  }

  #arrive(message: Message, command: Command, fails: boolean): Said {
    const { node } = message;
    if (node.isDown) return { error: new Error(`connect ECONNREFUSED ${node.label}`) };
    if (fails) return { error: new ReplyError("LOADING Redis is loading the dataset in memory") };
    this.witness.before?.(node, message);
    try {
      return { reply: node.execute(command), definite: true };
    } catch (error) {
      return { error };
    } finally {
      this.witness.after?.(node, message);
    }
  }

  #spoilt(name: string, said: Said): Said {
    if (!this.#fate.fault(`rubbish ${name}`, this.#settings.faults.rubbish)) return said;
    const reply = this.#fate.pick(`rubbish what ${name}`, rubbish);
    return reply === undefined ? { error: new Error("HTTP 502: <html>Bad gateway</html>") } : { reply };
  }

  #wayMs(name: string): number {
    const { oneWayMs, sigma, faults } = this.#settings;
    const isLate = this.#fate.fault(`tail ${name}`, faults.tail);
    const ms = this.#fate.lognormal(name, oneWayMs, sigma);
    return isLate ? ms + 4_000 * this.#fate.chance(`tail ms ${name}`) ** 2 : ms;
  }

  #slowMs({ name, node, call }: Message, { reply }: Said, copy: number): number {
    const { slowReplyMs, slowGrantMs } = this.#settings;
    const slow = (what: string, odds: number, mostMs: number): number =>
      mostMs > 0 && this.#fate.fault(what, odds) ? mostMs * this.#fate.chance(`${what} ms`) : 0;
    const isGrant = call.verb === "acquire" && Array.isArray(reply) && reply[0] === 1;
    const grantMs = isGrant && !node.isPrompt ? slowGrantMs : 0;
    const round = name.replace(`/${node.label}`, "");
    return slow(`slow ${name}#${copy}`, 1 / 8, slowReplyMs) + slow(`slow grant ${round}`, 1 / 2, grantMs);
  }

  /** By what its sender was doing when it first used the token, so that messages keep their names as faults go. */
  #nameOf(process: Process, { verb, token }: Call, node: SimNode): string {
    const task = this.#tasks.get(token) ?? process.task;
    if (token.length > 1) this.#tasks.set(token, task);
    const kind = `${process.name}/${task}/${verb}/${node.label}`;
    const place = this.#places.get(kind) ?? 0;
    this.#places.set(kind, place + 1);
    return place === 0 ? kind : `${kind}~${place}`;
  }
}

interface Said {
  readonly reply?: Reply;
  readonly error?: unknown;
  /** The node's own reply, unspoilt. */
  readonly definite?: boolean;
}

const fabrications: readonly (readonly [Reply, number])[] = [
  [null, 1],
  [1, 1],
  ["timeout", 1],
];

const rubbish: readonly (readonly [Reply | undefined, number])[] = [
  [undefined, 4],
  ["OK", 1],
  [null, 1],
  [[], 1],
  [[1], 1],
  [[1, 2, 3, 4], 1],
  [["1", "x", "3"], 1],
];

/** As many responses as one may wait for at a time: what comes after queues, and its time counts. */
class Lanes {
  #free: number;
  readonly #queue: (() => void)[] = [];

  readonly #onQueued: () => void;

  constructor(lanes: number, onQueued: () => void) {
    this.#free = lanes;
    this.#onQueued = onQueued;
  }

  enter(run: () => void): () => void {
    if (this.#free === 0) this.#onQueued();
    this.#queue.push(run);
    this.#next();
    let inside = true;
    return () => {
      if (!inside) return;
      inside = false;
      const place = this.#queue.indexOf(run);
      if (place >= 0) this.#queue.splice(place, 1);
      else this.#free += 1;
      this.#next();
    };
  }

  #next(): void {
    if (this.#free === 0) return;
    const run = this.#queue.shift();
    if (run === undefined) return;
    this.#free -= 1;
    run();
    this.#next();
  }
}
