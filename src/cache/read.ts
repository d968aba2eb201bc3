/**
 * Reads one entry for a flight: serves it, waits for whoever builds it, or has it built.
 *
 * @module
 */
import { uniform } from "../random.ts";
import { electScript } from "../scripts/elect.ts";
import type { Flight } from "./flight.ts";
import { failedError, rebuild } from "./rebuild.ts";
import { lookAgainMs } from "./waiting.ts";

/**
 * Looks until nobody is left who may take what comes.
 *
 * 1. A fresh value is served.
 * 2. Won, or no definite answer: build, for the one who has waited longest.
 * 3. Busy: serve the old value to those who take it. For the others wait by `waiting.ts` and look again; each look can
 *    win, so a takeover costs no request of its own.
 * 4. In a back-off: serve the old value to those who take it, and refuse the others, instead of letting them fail one
 *    by one.
 */
export async function readEntry(flight: Flight): Promise<void> {
  const { codec, env, node } = flight.context;
  for (let sleeps = 0; ; sleeps += 1) {
    const [reader] = flight.readers();
    if (reader === undefined) return;
    const args = [flight.token, reader.wanted.leaseMs, codec.prefix, 1];
    const asked = await flight.ask(reader, electScript, args);
    const { answer, question } = asked;
    if (answer.kind !== "reply" || answer.reply.type === "won") {
      if (await rebuild(flight, reader, asked)) continue;
      return;
    }
    const { type, payload, fence, leftMs, elapsedMs, usualMs } = answer.reply;
    if (type === "hit" && payload !== undefined) {
      const readers = flight.readers(question);
      for (const served of readers) flight.notify({ type: "hit", fence }, served, answer);
      return flight.tell(readers, { payload, status: sleeps === 0 ? "hit" : "waited", fence, stored: true });
    }
    flight.serveOld(asked, type === "back-off");
    if (type === "back-off") {
      return flight.tell(flight.readers(question), { error: failedError(reader, { retryAfterMs: leftMs }) });
    }
    const roundTripMs = node.trip.smoothedMs ?? answer.ms;
    const chance = uniform(env.random, 0, 1);
    const ms = lookAgainMs({ sleeps, leftMs, elapsedMs, usualMs, roundTripMs, chance });
    await flight.pause(ms, usualMs > elapsedMs ? usualMs - elapsedMs : leftMs);
  }
}
