/**
 * Who holds what at the moment, as far as this observer was told: for how long, and how close to the deadline it came.
 *
 * @module
 */
import { elapsedMs, type Stamp } from "../../src/clock.ts";

/** Enough for any process; beyond it the oldest are forgotten, such as those that a frozen host never ended. */
const mostHolds = 10_000;

/** One lease, by its name and its fence, which no two acquisitions of a name share. */
interface Holder {
  readonly name: string;
  readonly fence: number;
}

/** What a hold came to. */
export interface Ended {
  readonly heldMs: number;
  /** The part of the lease that had passed now, and the largest that had at any time; 1 is the deadline. */
  readonly used: number;
  readonly mostUsed: number;
}

/** The leases that are held. */
export interface Holds {
  begin(holder: Holder, remainingMs: number, now: Stamp): void;
  /** A deadline was moved. Returns the part of the lease that had passed; undefined of a lease that is not known. */
  prolong(holder: Holder, remainingMs: number, now: Stamp): number | undefined;
  /** Ended so many ms ago. A lease ends once; undefined of one that is not known, or no more. */
  end(holder: Holder, now: Stamp, agoMs?: number): Ended | undefined;
}

/** Nothing is held yet. */
export function createHolds(): Holds {
  const held = new Map<string, { since: Stamp; grantedAt: Stamp; leftMs: number; mostUsed: number }>();
  const keyOf = ({ name, fence }: Holder): string => `${fence} ${name}`;
  return {
    begin(holder, remainingMs, now) {
      const [oldest] = held.keys();
      if (oldest !== undefined && held.size >= mostHolds) held.delete(oldest);
      held.set(keyOf(holder), { since: now, grantedAt: now, leftMs: Math.max(1, remainingMs), mostUsed: 0 });
    },
    prolong(holder, remainingMs, now) {
      const hold = held.get(keyOf(holder));
      if (!hold) return undefined;
      const used = elapsedMs(hold.grantedAt, now) / hold.leftMs;
      Object.assign(hold, { grantedAt: now, leftMs: Math.max(1, remainingMs) });
      hold.mostUsed = Math.max(hold.mostUsed, used);
      return used;
    },
    end(holder, now, agoMs = 0) {
      const key = keyOf(holder);
      const hold = held.get(key);
      if (!hold) return undefined;
      held.delete(key);
      const sinceMs = (stamp: Stamp): number => Math.max(0, elapsedMs(stamp, now) - agoMs);
      const used = sinceMs(hold.grantedAt) / hold.leftMs;
      return { heldMs: sinceMs(hold.since), used, mostUsed: Math.max(hold.mostUsed, used) };
    },
  };
}
