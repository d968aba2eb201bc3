/**
 * What is sent to a REST API: checked settings, and a body unlike any other.
 *
 * @module
 */
import { systemClock } from "../src/clock.ts";
import type { Signal } from "../src/command.ts";
import { configError, type LockError } from "../src/errors.ts";

/** What `fetch` is called with. */
export interface RestRequest {
  readonly method: "POST";
  readonly headers: Record<string, string>;
  readonly body: string;
  readonly redirect: "manual";
  readonly signal?: Signal;
  readonly cache?: "no-store" | "no-cache";
}

/** What is used of a response. */
export interface RestResponse {
  readonly status: number;
  readonly headers: { get(name: string): string | null };
  text(): Promise<string>;
}

/** What is used of a `URL`. Its parts, not the class, which the libraries of some consumers do not have (report K04). */
export interface UrlParts {
  readonly href: string;
  readonly origin: string;
  readonly host: string;
  readonly hostname: string;
  readonly pathname: string;
}

/** The URL of a REST API, or undefined where what is given is none, or brings credentials. */
export function urlOf(given: unknown): UrlParts | undefined {
  const text = String(given).trim();
  const url = URL.canParse(text) ? new URL(text) : undefined;
  return url && /^https?:\/\/[^/@]+\//.test(url.href) ? url : undefined;
}

/** Refuses a setting. Neither a URL nor a token is shown: one may hold the other by mistake. */
export function refused(option: "url" | "token", expected: string, given: unknown): LockError {
  return configError(
    option,
    expected,
    given && typeof given === "string" ? "another text" : String(JSON.stringify(given)),
  );
}

/**
 * Blanks that make a body unlike any other, so that no cache of a framework answers a request that looks like an earlier
 * one: Next keys its cache on the URL, the method, the headers and the body. JSON allows white space at its end.
 */
export function uniqueBlanks(count: number): string {
  const digits = systemClock.now().wall.toString(4) + count.toString(4); // the first has 21 digits until 2109
  return digits.replace(/\d/g, (digit) => " \t\n\r".charAt(Number(digit)));
}
