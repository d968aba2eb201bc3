/**
 * What the scripts on an entry have in common besides their first lines: the shape of their replies.
 *
 * @module
 */
import type { Reply } from "../command.ts";
import type { Script } from "../script.ts";
import { entryPrelude } from "./entry.ts";

/** What every script on an entry replies: one word for what it did, and the entry as it then is. */
export interface EntryReply<Type extends string = string> {
  readonly type: Type;
  /** The fence that was given last: with "won" that of the election. */
  readonly attempt: number;
  /** The fence of the payload. */
  readonly fence: number;
  /** What is left of freshness ("hit"), of the election ("won", "busy") or of the back-off ("back-off", "failed"). */
  readonly leftMs: number;
  /** For how long the payload has not been fresh any more; below 0 while it is. */
  readonly ageMs: number;
  /** How long the build has run; of a `set`, which has none, since 1970. */
  readonly elapsedMs: number;
  /** How long a build usually takes, 0 where unknown. */
  readonly usualMs: number;
  /** Where there is one, and the caller has a use for it; else empty. */
  readonly payload: string;
}

type SixNumbers = [number, number, number, number, number, number];

/** A script on an entry. Any reply of this shape is one of its own: a word, a payload or nothing, and six integers. */
export function entryScript<Type extends string>(source: string): Script<EntryReply<Type>> {
  return {
    source: entryPrelude + source,
    decode(reply: Reply) {
      const [type, payload, ...rest] = Array.isArray(reply) ? reply : [];
      const numbers = rest.map(Number); // some clients give integers as decimal strings, and 0 as null
      if (typeof type !== "string" || numbers.length !== 6 || !numbers.every(Number.isInteger)) return undefined;
      const [attempt, fence, leftMs, ageMs, elapsedMs, usualMs] = numbers as SixNumbers;
      return { type: type as Type, payload: `${payload || ""}`, attempt, fence, leftMs, ageMs, elapsedMs, usualMs };
    },
  };
}
