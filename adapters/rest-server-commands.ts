/**
 * Which commands a REST server passes on: those that mean the same whoever shares the connection to Redis.
 *
 * @module
 */

// They change what later commands of others mean, or keep the connection to themselves: one caller's SELECT would move
// the locks of all into another database, and a MULTI would queue them. Upstash has none of them over REST either.
const stateful = new Set(
  (
    "SELECT MULTI EXEC DISCARD WATCH UNWATCH SUBSCRIBE PSUBSCRIBE SSUBSCRIBE UNSUBSCRIBE PUNSUBSCRIBE SUNSUBSCRIBE MONITOR " +
    "SYNC PSYNC QUIT RESET HELLO AUTH CLIENT READONLY READWRITE ASKING BLPOP BRPOP BLMOVE BLMPOP BRPOPLPUSH BZPOPMIN " +
    "BZPOPMAX BZMPOP WAIT WAITAOF SHUTDOWN DEBUG REPLICAOF SLAVEOF FAILOVER"
  ).split(" "),
);

/** Redis' words for a command that is not passed on; undefined for all others. */
export function refusalOf([name, ...args]: readonly unknown[]): string | undefined {
  const word = String(name);
  const blocks = /^XREAD/i.test(word) && args.some((arg) => /^BLOCK$/i.test(String(arg)));
  // A word such as "valueOf", which every object has, is taken for a method by some clients, and ends the process.
  return blocks || stateful.has(word.toUpperCase()) || word in {}
    ? `ERR Command is not available: '${word}'`
    : undefined;
}
