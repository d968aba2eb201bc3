/**
 * Reads one entry for a flight: serves it, waits for whoever builds it, or has it built.
 *
 * @module
 */
import { uniform } from "../random.ts";
import { electScript } from "../scripts/elect.ts";
import { prefix } from "./codec.ts";
import { type Flight, serveOld } from "./flight.ts";
import { failed, rebuild } from "./rebuild.ts";
import { lookAgain } from "./waiting.ts";

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
  const { env, node } = flight.context;
  for (let sleeps = 0; ; sleeps += 1) {
    const [reader] = flight.readers();
    if (reader === undefined) return;
    const args = [flight.token, reader.wanted.leaseMs, prefix, 1];
    const elected = await flight.ask(reader, electScript, args);
    const { answer, reply, question } = elected;
    if (reply === undefined || reply.type === "won") {
      return rebuild(flight, reader, elected);
    }
    const { type, payload, fence, leftMs } = reply;
    if (type === "hit" && payload !== undefined) {
      const readers = flight.readers(question);
      for (const served of readers) flight.notify({ type, fence }, served, answer);
      return flight.tell(readers, { payload, status: sleeps > 0 ? "waited" : type, fence, stored: true });
    }
    const isFailing = type === "back-off";
    serveOld(flight, elected, isFailing);
    if (isFailing) return flight.tell(flight.readers(question), failed(reader, { retryAfterMs: leftMs }));
    const { sleepMs, untilDoneMs } = lookAgain(reply, {
      sleeps,
      roundTripMs: node.trip.smoothedMs ?? answer.ms,
      chance: uniform(env.random, 0, 1),
    });
    await flight.pause(sleepMs, untilDoneMs);
  }
}
