/**
 * Reads one entry for a flight: serves it, waits for whoever builds it, or has it built.
 *
 * @module
 */
import { notify } from "../events.ts";
import { uniform } from "../random.ts";
import { electScript } from "../scripts/elect.ts";
import { buildWithoutRedis, rebuild } from "./build.ts";
import type { Flight } from "./flight.ts";
import { failedError } from "./reader.ts";
import { lookAgainMs } from "./waiting.ts";

/**
 * Looks until nobody is left who may take what comes.
 *
 * 1. A hit is served. In a back-off readers are refused at once, instead of failing one by one.
 * 2. Won: build, for the one who has waited longest.
 * 3. Busy: wait by `waiting.ts` and look again. Each look can win, so a takeover costs no request of its own.
 * 4. No definite answer: build without Redis, or refuse, as each reader wishes.
 */
export async function readEntry(flight: Flight): Promise<void> {
  const { codec, env, node, observe } = flight.context;
  for (let sleeps = 0; ; sleeps += 1) {
    const [reader] = flight.readers;
    if (reader === undefined) return;
    const args = [flight.token, reader.wanted.leaseMs, codec.prefix, 1];
    const { answer, question } = await flight.ask(reader, electScript, args);
    if (answer.kind !== "reply") return buildWithoutRedis(flight, answer);

    const { type, payload, fence, leftMs, elapsedMs, usualMs } = answer.reply;
    if (type === "won") return rebuild(flight, reader, answer, answer.reply);
    const readers = flight.eligible(question);
    if (type === "hit" && payload !== undefined) {
      const status = sleeps === 0 ? "hit" : "waited";
      for (const served of readers) notify(observe, { type: "hit", fence, ...served.happened(answer) });
      return flight.give(readers, { payload, status, fence, stored: true });
    }
    if (type === "back-off") {
      return flight.refuse(readers, failedError(flight.place.name, { retryAfterMs: leftMs }));
    }
    const roundTripMs = node.trip.smoothedMs ?? answer.ms;
    const chance = uniform(env.random, 0, 1);
    const ms = lookAgainMs({ sleeps, leftMs, elapsedMs, usualMs, roundTripMs, chance });
    await flight.pause(ms, usualMs > elapsedMs ? usualMs - elapsedMs : leftMs);
  }
}
