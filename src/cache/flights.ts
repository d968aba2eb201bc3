/**
 * Brings the readers of one entry in this process together in one flight; on hosts that keep requests apart, each
 * reader flies alone.
 *
 * @module
 */
import type { CacheContext } from "./context.ts";
import { Flight } from "./flight.ts";
import { readEntry } from "./read.ts";
import { type Given, Reader, type Wanted } from "./reader.ts";

export class Flights {
  readonly #context: CacheContext;
  readonly #open = new Map<string, Flight>();

  constructor(context: CacheContext) {
    this.#context = context;
  }

  /** Resolves with what the reader is given and the requests sent on its behalf. */
  async read(wanted: Wanted): Promise<Given & { readonly requests: number }> {
    const reader = new Reader(this.#context.env, wanted);
    this.#seat([reader]);
    const given = await reader.given;
    return { ...given, requests: reader.requests };
  }

  /** Whoever reads from now on asks anew: what is under way may rest on the past. */
  detach(key: string): void {
    this.#open.delete(key);
  }

  #seat(readers: readonly Reader[]): void {
    const [first] = readers;
    if (first === undefined) return;
    const { key } = first.wanted;
    const joined = this.#open.get(key);
    const flight = joined ?? new Flight(this.#context, first.wanted);
    for (const reader of readers) flight.sitDown(reader);
    if (joined !== undefined) return;

    const close = (): void => {
      if (this.#open.get(key) === flight) this.#open.delete(key);
    };
    if (!this.#context.env.host.isolatesRequests) this.#open.set(key, flight);
    flight.deserted.addEventListener("abort", close);
    const flown = this.#fly(flight).then(() => {
      close();
      this.#seat(flight.readers); // they sat down too late for what there was, and ask again, together
    });
    first.wanted.waitUntil?.(flown);
  }

  async #fly(flight: Flight): Promise<void> {
    await null; // whoever calls in this same turn sits down in time for the first question
    try {
      await readEntry(flight);
    } catch (error) {
      flight.refuse(flight.readers, error);
    }
  }
}
