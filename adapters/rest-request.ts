/**
 * What is sent to a REST API: checked settings, and a body unlike any other.
 *
 * @module
 */
import { systemClock } from "../src/clock.ts";
import type { Signal } from "../src/command.ts";

/** What `fetch` is called with. */
export interface RestRequest {
  readonly method: "POST";
  readonly headers: Record<string, string>;
  readonly body: string;
  readonly redirect: "manual";
  /** Undefined where there is none to heed. */
  readonly signal?: Signal;
  readonly cache?: "no-store" | "no-cache";
}

/** What is used of a response. */
export interface RestResponse {
  readonly status: number;
  readonly headers: { get(name: string): string | null };
  text(): Promise<string>;
}

/** Where a REST API is. */
export interface Address {
  /** Origin and path, without a final slash, query or fragment. */
  readonly base: string;
  readonly host: string;
}

/** Where a REST API is, or undefined where what is given is no URL, or brings credentials. */
export function addressOf(given: unknown): Address | undefined {
  if (!URL.canParse(given as string)) return undefined;
  const { href, host } = new URL(given as string); // which trims it
  const base = /^https?:\/\/[^/@]+\/[^?#]*/.exec(href)?.[0].replace(/\/+$/, "");
  return base ? { base, host } : undefined;
}

// Of all clients here, as one may be made for each request. A number alone: requests may share it anywhere.
let count = 0;

/**
 * Blanks that make a body unlike any other, so that no cache of a framework answers a request that looks like an earlier
 * one: Next keys its cache on the URL, the method, the headers and the body. JSON allows white space at its end.
 */
export function uniqueBlanks(): string {
  count += 1;
  const digits = systemClock.now().wall.toString(4) + count.toString(4); // the first has 21 digits until 2109
  return digits.replace(/\d/g, (digit) => " \t\n\r"[+digit] as string);
}
