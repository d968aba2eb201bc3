/**
 * The token of a REST server: what callers must send, and how it is compared.
 *
 * @module
 */
import { configError } from "../src/errors.ts";

/** What callers must send. @throws LockError "config" for what no header can hold */
export function bearerOf(token: unknown): string {
  const text = typeof token === "string" ? token.trim() : "";
  if (!/^[!-~]+$/.test(text)) throw configError("token", "a text of visible ASCII, without blanks", typeof token);
  return `Bearer ${text}`;
}

/**
 * Looks at every character, so that the time taken does not tell how much of a guess was right. Hono's own comparison
 * hashes both by Web Crypto, which took a quarter of this server's time.
 */
export function isSame(given: string, secret: string): boolean {
  let difference = given.length ^ secret.length;
  for (let index = 0; index < secret.length; index += 1) {
    difference |= given.charCodeAt(index) ^ secret.charCodeAt(index);
  }
  return difference === 0;
}
