/**
 * Asks one Redis for all that a diagnosis needs. Reads only.
 *
 * @module
 */
import type { Command, Reply } from "../command.ts";
import type { Environment } from "../environment.ts";
import type { LockKeys } from "../keys.ts";
import { type Answer, ask, type Node } from "../node.ts";
import { type PlainAnswer, sendPlain } from "../plain-command.ts";
import { type InspectReply, inspectScript } from "../scripts/inspect.ts";
import { type RoundTrip, sampled, unknownRoundTrip } from "../validity.ts";

/** One look at the clock of a server. */
export interface ClockSample {
  /** By how much it is ahead of this machine's, in ms. */
  readonly offsetMs: number;
  /** How far off that may be: half the round trip, and the resolution of this machine's clock. */
  readonly errorMs: number;
}

/** What one Redis told of itself. */
export interface Facts {
  readonly label: string;
  readonly scriptHeader: string | undefined;
  /** Why it did not answer at all. */
  readonly silence?: string;
  readonly trip: RoundTrip;
  /** The sharpest of several. */
  readonly clock: ClockSample | undefined;
  /** Why it did not tell the time, where it answered. */
  readonly clockReason?: string;
  /** The fields of INFO; empty where it was refused. */
  readonly info: ReadonlyMap<string, string>;
  /** Settings, as far as CONFIG GET was answered. */
  readonly config: ReadonlyMap<string, string>;
  readonly inspect: Answer<InspectReply> | undefined;
  readonly takesHeaders: boolean | undefined;
  /** Commands that compare and set or delete in one step; undefined where it does not say. */
  readonly compareCommands: readonly string[] | undefined;
}

const timeoutMs = 2_500;
const looks = 8;
const settings = ["maxmemory-policy", "appendonly", "appendfsync", "save"];
const compareCommands = ["DELEX", "DELIFEQ"];

/** Asks the time again and again, one after another, so that nothing else lengthens the round trip; then all the rest. */
export async function factsOf(env: Environment, node: Node, keys: LockKeys): Promise<Facts> {
  const { label, client } = node;
  const send = (...command: Command): Promise<PlainAnswer> => sendPlain(env, client, command, timeoutMs);
  const nothing = { info: new Map(), config: new Map() };
  let trip = unknownRoundTrip;
  let clock: ClockSample | undefined;
  let clockReason: string | undefined;
  for (let look = 0; look <= looks; look += 1) {
    const answer = await send("TIME");
    const known = { label, scriptHeader: client.scriptHeader, trip, clock };
    const left = { inspect: undefined, takesHeaders: undefined, compareCommands: undefined };
    if (answer.reason !== undefined && (!answer.code || /^(WRONGPASS|NOAUTH)$/.test(answer.code)))
      return { ...known, ...nothing, ...left, silence: answer.reason };
    clockReason = answer.reason;
    if (look === 0) continue; // it may have opened the connection
    trip = sampled(trip, answer.ms);
    const sample = sampleOf(answer);
    if (sample && sample.errorMs < (clock?.errorMs ?? Infinity)) clock = sample;
  }
  const question = { script: inspectScript, keys: [keys.lock, keys.fence], args: [] };
  const [info, inspect, header, commands, ...configs] = await Promise.all([
    send("INFO"),
    ask(env, node, question, timeoutMs),
    send("EVAL", "#!lua\nreturn 1", 0),
    send("COMMAND", "INFO", ...compareCommands),
    ...settings.map((name) => send("CONFIG", "GET", name)),
  ]);
  return {
    label,
    scriptHeader: client.scriptHeader,
    trip,
    clock,
    ...(clockReason === undefined ? {} : { clockReason }),
    info: fieldsOf(info.reply),
    config: new Map(configs.flatMap(({ reply }) => pairOf(reply))),
    inspect,
    takesHeaders: header.reply === undefined && !header.code ? undefined : header.reply === 1,
    compareCommands: knownOf(commands.reply),
  };
}

/** The server's clock was read at some moment of the round trip; the middle is off by half of it at most. */
function sampleOf({ reply, sentAtMs, ms }: PlainAnswer): ClockSample | undefined {
  if (!Array.isArray(reply) || reply.length !== 2) return undefined;
  const serverMs = Number(reply[0]) * 1_000 + Number(reply[1]) / 1_000;
  if (!Number.isFinite(serverMs)) return undefined;
  return { offsetMs: serverMs - (sentAtMs + ms / 2), errorMs: ms / 2 + 1 };
}

function fieldsOf(reply: Reply | undefined): ReadonlyMap<string, string> {
  const lines = typeof reply === "string" ? reply.matchAll(/^(\w+):(.{0,100}).*$/gm) : [];
  return new Map([...lines].map(([, name = "", value = ""]) => [name, value.trim()]));
}

/** COMMAND INFO has null for a command that there is not. */
function knownOf(reply: Reply | undefined): readonly string[] | undefined {
  if (!Array.isArray(reply)) return undefined;
  return compareCommands.filter((_, at) => Array.isArray(reply[at]));
}

/** One setting, as the list of its name and value. */
function pairOf(reply: Reply | undefined): [string, string][] {
  const [name, value] = Array.isArray(reply) ? reply : [];
  return typeof name === "string" && typeof value === "string" ? [[name, value]] : [];
}
