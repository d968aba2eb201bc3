/**
 * Brings the readers of one entry in this process together in one flight; on hosts that keep requests apart, each
 * reader flies alone.
 *
 * @module
 */
import { settle } from "../context.ts";
import { failure } from "../errors.ts";
import type { CacheContext } from "./context.ts";
import { createFlight } from "./flight.ts";
import { readEntry } from "./read.ts";
import type { Given, Reader, Told, Wanted } from "./reader.ts";

/** The flights of one cache. */
export interface Flights {
  readonly context: CacheContext;
  /** Resolves with what the reader is given and the requests sent on its behalf. */
  read(wanted: Wanted): Promise<Given & { readonly requests: number }>;
  /** Whoever reads from now on asks anew: what is under way may rest on the past. */
  detach(key: string): void;
}

export function createFlights(context: CacheContext): Flights {
  const { clock, host } = context.env;
  const open = new Map<string, ReturnType<typeof createFlight>>();

  const seat = (readers: readonly Reader[]): void => {
    const [first] = readers;
    if (first === undefined) return;
    const { key } = first.wanted;
    const joined = open.get(key);
    const flight = joined ?? createFlight(context, () => open.get(key) === flight && open.delete(key));
    for (const reader of readers) flight.sitDown(reader);
    if (joined !== undefined) return;
    if (!host.isolatesRequests) open.set(key, flight);
    const fly = async (): Promise<void> => {
      await null; // whoever calls in this same turn sits down in time for the first question
      await readEntry(flight).catch((error: unknown) => flight.tell(flight.readers(), { error }));
      flight.detach();
      seat(flight.readers()); // they sat down too late for what there was, and ask again, together
    };
    void settle(first.wanted, fly());
  };

  return {
    context,
    async read(wanted) {
      const { name, signal, waitMs } = wanted;
      const aborted = (): unknown =>
        failure("aborted", "get", name, "the caller's signal aborted", { cause: signal?.reason });
      if (signal?.aborted) throw aborted();
      let tell: (told: Told) => void = () => {};
      const told = new Promise<Told>((resolve) => {
        tell = resolve;
      });
      const reader: Reader = {
        wanted,
        startedAt: clock.now(),
        requests: 0,
        isOverdue: waitMs === 0,
        satDownAt: 0,
        tell,
      };
      seat([reader]);
      const onAbort = (): void => reader.seat?.dismiss(reader, aborted());
      const cancel = clock.after(waitMs, true, () => {
        reader.isOverdue = true;
        reader.seat?.expire();
      });
      signal?.addEventListener("abort", onAbort);
      const outcome = await told;
      cancel();
      signal?.removeEventListener("abort", onAbort);
      if ("error" in outcome) throw outcome.error;
      return { ...outcome, requests: reader.requests };
    },
    detach: (key) => void open.delete(key),
  };
}
