/**
 * Compares what a caller sent with the token of a REST server.
 *
 * @module
 */

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
