/**
 * Brings the readers of one entry in this process together in one flight; on hosts that keep requests apart, each
 * reader flies alone.
 *
 * @module
 */
import { untilAborted } from "../command.ts";
import { settle } from "../context.ts";
import { failure } from "../errors.ts";
import type { CacheContext, Place } from "./context.ts";
import { createFlight, type Flight } from "./flight.ts";
import { outerBuild } from "./nesting.ts";
import { readEntry } from "./read.ts";
import type { Given, Reader, Told } from "./reader.ts";

/** What a read asks for. */
export type ReadCall = Omit<Reader, "outer" | "isOverdue" | "flight" | "tell">;

/** The flights of one cache. */
export interface Flights {
  readonly context: CacheContext;
  /** Resolves with what the reader is given and the requests sent on its behalf. */
  read(call: ReadCall): Promise<Given & { readonly requests: number }>;
  /** Whoever reads from now on asks anew: what is under way may rest on the past. */
  detach(place: Place): void;
}

/** The flights of a cache, none under way yet. */
export function createFlights(context: CacheContext): Flights {
  const { clock, host } = context.env;
  const open = new Map<string, Flight>();

  const seat = (readers: readonly Reader[], hasWaited?: boolean): void => {
    const [first] = readers;
    if (!first) return;
    const { key } = first;
    const other = open.get(key);
    // Who takes a value as old as the one that is being replaced does not wait with the others, but is given it.
    const joined = first.staleMs > (other?.ageMs as number) ? undefined : other;
    const flight = joined ?? createFlight(context, () => open.get(key) === flight && open.delete(key));
    for (const reader of readers) {
      reader.flight = flight;
      flight.readers.add(reader);
    }
    flight.hasWaited ||= hasWaited;
    if (joined) return;
    if (!host.isolatesRequests) open.set(key, flight);
    const fly = async (): Promise<void> => {
      await null; // whoever calls in this same turn sits down in time for the first question
      await readEntry(flight).catch((error: unknown) => flight.tell(flight.readers, { error }));
      flight.detach();
      seat([...flight.readers], flight.hasWaited); // they may not take what there was, and ask again, together
    };
    void settle(first, fly());
  };

  return {
    context,
    async read(call) {
      const { name, signal, waitMs, softTimeoutMs } = call;
      const outer = outerBuild(context.node.client, call);
      let reader!: Reader;
      const told = new Promise<Told>((tell) => {
        reader = { ...call, outer, tell };
      });
      if (!signal?.aborted) seat([reader]);
      const cancel = clock.after(waitMs, true, () => {
        reader.isOverdue = true;
        reader.flight?.expire();
      });
      const cancelSoft =
        softTimeoutMs === undefined
          ? undefined
          : clock.after(softTimeoutMs, true, () => reader.flight?.rescue(reader).catch(() => {}));
      const outcome = await untilAborted(told, signal)
        .catch((cause: unknown): Told => {
          return { error: failure("aborted", "get", name, "the caller's signal aborted", { cause }) };
        })
        .finally(cancel)
        .finally(cancelSoft);
      if ("error" in outcome) {
        reader.flight?.leave(reader);
        throw outcome.error;
      }
      return { ...outcome, requests: reader.requests };
    },
    detach: ({ key }) => void open.delete(key),
  };
}
