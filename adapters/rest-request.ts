/**
 * What is sent to a Redis REST API: the settings, checked at the first use, and the body of each request.
 *
 * @module
 */
import { systemClock } from "../src/clock.ts";
import type { Signal } from "../src/command.ts";
import { LockError } from "../src/errors.ts";

/** What `fetch` is called with. */
export interface RestRequest {
  readonly method: "POST";
  readonly headers: Record<string, string>;
  readonly body: string;
  readonly redirect: "manual";
  readonly signal?: Signal;
  readonly cache?: "no-store" | "no-cache";
}

/** What is read of a `Response`. */
export interface RestResponse {
  readonly status: number;
  readonly headers: { get(name: string): string | null };
  text(): Promise<string>;
}

/** Where requests go. */
export interface Target {
  /** Without a slash at its end. */
  readonly url: string;
  readonly token: string;
}

/** The settings, checked. Does not say what they are: a token may stand where the URL should. */
export function readTarget(settings: { readonly url: unknown; readonly token: unknown }): Target {
  const url = readUrl(settings.url);
  const token = textOf(settings.token);
  if (textOf(settings.url) === "") throw refusal("url", "is missing", emptiness(settings.url));
  if (url === undefined) throw refusal("url", "must be a URL", "not one");
  if (!/^https?:$/.test(url.protocol)) {
    const scheme = /^rediss?:$/.test(url.protocol) ? `a ${url.protocol}// URL` : "of another scheme";
    throw refusal("url", "must be the https URL of the REST API", scheme);
  }
  if (url.username !== "" || url.password !== "") throw refusal("url", "must hold no credentials", "a URL with some");
  if (token === "") throw refusal("token", "is missing", emptiness(settings.token));
  if (!/^[!-~]+$/.test(token)) throw refusal("token", "must be ASCII without white space", "something else");
  return { url: url.origin + url.pathname.replace(/\/+$/, ""), token };
}

/** What one of the settings got wrong. */
export function refusal(option: string, reason: string, value: string): LockError {
  return new LockError("config", `Cannot reach Redis over REST as "${option}" ${reason}: current value is ${value}`);
}

/** What is read of a `URL`, by its parts: not every consumer's libraries have the class (reports.md K04). */
export interface Address {
  readonly protocol: string;
  readonly username: string;
  readonly password: string;
  readonly origin: string;
  readonly host: string;
  readonly hostname: string;
  readonly pathname: string;
}

/** Undefined where the text, without the white space around it, is no URL. */
export function readUrl(value: unknown): Address | undefined {
  const text = textOf(value);
  return URL.canParse(text) ? new URL(text) : undefined;
}

function textOf(value: unknown): string {
  return String(value ?? "").trim();
}

function emptiness(value: unknown): string {
  return value === undefined || value === null ? String(value) : "empty";
}

/**
 * White space that no other request has, to be ignored by JSON: frameworks such as Next.js answer a POST with the same
 * body from their own cache. A time and a count, since the clock of Workers stands still between two requests.
 */
export function uniqueBlanks(count: number): string {
  const digits = systemClock.now().wall.toString(4) + (count % 4 ** 8).toString(4).padStart(8, "0");
  return digits.replace(/\d/g, (digit) => " \t\n\r"[Number(digit)] ?? "");
}
