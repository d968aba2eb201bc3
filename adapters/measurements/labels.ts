/**
 * Labels of a bounded number: a metric keeps a series for each value that it has ever seen.
 *
 * @module
 */
import { configError } from "../../src/errors.ts";

/** What an observer may be told of names. */
export interface LabelOptions {
  /**
   * The value of the label `name`, made of the name of a lock or the key of a cache, such as `(name) => name.split(":")[0]`.
   * Without it there is no such label, as names are as many as orders or users.
   */
  readonly label?: ((name: string) => string) | undefined;
  /**
   * How many values the label `name` may have; what comes later is counted as "other".
   *
   * @default {100}
   */
  readonly maxLabels?: number | undefined;
}

/** No label is longer. */
const longest = 100;

/** How many nodes are told apart. */
const mostNodes = 100;

/** The labels of one observer. */
export interface Labelling {
  /** Undefined where names are no label. */
  nameOf(name: string): string | undefined;
  nodeOf(label: string): string;
}

/** @throws LockError "config" */
export function labelling({ label, maxLabels = 100 }: LabelOptions): Labelling {
  if (label !== undefined && typeof label !== "function") throw configError("label", "a function", typeof label);
  if (!(Number.isInteger(maxLabels) && maxLabels > 0)) {
    throw configError("maxLabels", "a positive integer", String(maxLabels));
  }
  const bounded = boundedTo(maxLabels);
  return {
    nameOf: (name) => label && bounded(labelOf(label, name)),
    nodeOf: boundedTo(mostNodes),
  };
}

function labelOf(label: (name: string) => string, name: string): unknown {
  try {
    return label(name);
  } catch {
    return undefined;
  }
}

/** Gives back the first so many distinct texts that it is given, and "other" for what else there is. */
function boundedTo(most: number): (value: unknown) => string {
  const seen = new Set<string>();
  return (value) => {
    if (typeof value !== "string") return "other";
    const text = Array.from(value.slice(0, 2 * longest))
      .slice(0, longest)
      .join("");
    if (seen.size < most) seen.add(text);
    return seen.has(text) ? text : "other";
  };
}
