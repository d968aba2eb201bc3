/**
 * Reads one entry for a flight: serves it, waits for whoever builds it, or has it built.
 *
 * @module
 */
import { uniform } from "../random.ts";
import { electScript } from "../scripts/elect.ts";
import { prefix } from "./codec.ts";
import { report } from "./context.ts";
import type { Flight } from "./flight.ts";
import { failed, rebuild } from "./rebuild.ts";
import { lookAgainMs } from "./waiting.ts";

/**
 * Looks until nobody is left who may take what comes.
 *
 * 1. A hit is served.
 * 2. Won, or no definite answer: build, for the one who has waited longest.
 * 3. Busy: wait by `waiting.ts` and look again. Each look can win, so a takeover costs no request of its own.
 * 4. In a back-off: refuse, instead of letting each reader fail for itself.
 */
export async function readEntry(flight: Flight): Promise<void> {
  const { context, token } = flight;
  for (let sleeps = 0; ; sleeps += 1) {
    const [reader] = flight.readers();
    if (reader === undefined) return;
    const elected = await flight.ask(reader, electScript, [token, reader.wanted.leaseMs, prefix, 1]);
    const { answer, reply, question } = elected;
    if (reply === undefined || reply.type === "won") return rebuild(flight, reader, elected);
    const { type, payload, fence, leftMs } = reply;
    if (type === "hit" && payload !== undefined) {
      const readers = flight.readers(question);
      for (const served of readers) report(context, { type, fence }, served, answer);
      return flight.tell(readers, { payload, status: sleeps > 0 ? "waited" : type, fence, stored: true });
    }
    if (type === "back-off") return flight.tell(flight.readers(question), failed(reader, { retryAfterMs: leftMs }));
    const roundTripMs = context.node.trip.smoothedMs ?? answer.ms;
    await flight.pause(lookAgainMs(reply, sleeps, roundTripMs, uniform(context.env.random, 0, 1)), leftMs);
  }
}
