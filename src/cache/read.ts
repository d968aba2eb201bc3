/**
 * Reads one entry for a flight: serves it, waits for whoever builds it, or has it built.
 *
 * @module
 */
import { sleep } from "../clock.ts";
import { chance } from "../random.ts";
import { electScript } from "../scripts/elect.ts";
import { type Flight, serve } from "./flight.ts";
import { failed, rebuild } from "./rebuild.ts";
import { lookAgainMs } from "./waiting.ts";

/**
 * Looks until nobody is left who may take what comes.
 *
 * 1. A fresh value is served.
 * 2. Won, or no definite answer: build, for the one who has waited longest.
 * 3. Busy: serve an old value to those who take it. For the others wait by `waiting.ts` and look again. Each look can
 *    win, so a takeover costs no request of its own.
 * 4. In a back-off: serve an old value to those who take it, and refuse the others, instead of letting each fail for
 *    itself.
 */
export async function readEntry(flight: Flight): Promise<void> {
  const { context, token } = flight;
  const { env, prefix } = context;
  for (let sleeps = 0; ; sleeps += 1) {
    const [reader] = flight.readers;
    if (!reader) return;
    const oldestMs = Math.max(...[...flight.readers].map(({ staleMs }) => staleMs));
    const elected = await flight.ask(reader, electScript, [token, reader.leaseMs, prefix, 1, oldestMs]);
    const { reply } = elected;
    if (!reply || reply.type === "won") return rebuild(flight, reader, elected);
    const { type, leftMs } = reply;
    const isFailing = type === "back-off";
    serve(flight, elected, isFailing);
    if (type === "hit") return;
    if (isFailing) return flight.tell(elected.readers(), failed(reader, { retryAfterMs: leftMs }));
    flight.waitFor(undefined, leftMs);
    const ms = lookAgainMs(reply, sleeps, elected.ms, chance(env.random));
    await sleep(env.clock, ms, flight.signal).catch(() => {}); // nobody is left
  }
}
