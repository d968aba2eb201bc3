/**
 * What is sent to a REST API: checked settings, and a body unlike any other.
 *
 * @module
 */
import { systemClock } from "../src/clock.ts";
import type { Signal } from "../src/command.ts";
import { configError } from "../src/errors.ts";

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

/** The URL as given, or undefined where it is none. */
export function urlOf(given: unknown): UrlParts | undefined {
  const text = String(given).trim();
  return URL.canParse(text) ? new URL(text) : undefined;
}

/** Where to send to, without a slash at its end. */
export function checkedUrl(given: unknown): string {
  const url = urlOf(given);
  if (url && /^https?:\/\/[^/@]+\//.test(url.href)) return url.origin + url.pathname.replace(/\/+$/, "");
  throw configError("url", "the https URL of a REST API, without credentials", kindOf(given));
}

/** The token, free of the line break that often comes with it. */
export function checkedToken(given: unknown): string {
  const token = typeof given === "string" ? given.trim() : "";
  if (/^[!-~]+$/.test(token)) return token;
  throw configError("token", "the REST token, in ASCII without white space", kindOf(given));
}

// Neither a URL nor a token is shown: one may hold the other by mistake.
function kindOf(given: unknown): string {
  const text = String(given).trim();
  if (typeof given !== "string" || !text) return text || "empty";
  return /^rediss?:/.test(text) ? "a redis URL" : "another text";
}

/**
 * Blanks that make a body unlike any other, so that no cache of a framework answers a request that looks like an earlier
 * one: Next keys its cache on the URL, the method, the headers and the body. JSON allows white space at its end.
 */
export function uniqueBlanks(count: number): string {
  const digits = systemClock.now().wall.toString(4) + (count % 4 ** 8).toString(4).padStart(8, "0");
  return digits.replace(/\d/g, (digit) => " \t\n\r".charAt(Number(digit)));
}
