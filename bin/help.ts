/**
 * What `--help` says.
 *
 * @module
 */
import type { CommandName } from "./arguments.ts";

const nodeOptions = `
Nodes
  --node URL          redis://, rediss:// or https://; once for each node of a Redlock. Without it
                      UPSTASH_REDIS_REST_URL, else REDIS_URL
  --token-env NAME    the variable with the REST token, UPSTASH_REDIS_REST_TOKEN if none is named;
                      once for all https:// nodes, or once for each, in their order
  --token-file PATH   a file with the token, in the same way
  --prefix TEXT       what the keys begin with (lock)
  A password for redis:// is taken from the URL, else from REDISCLI_AUTH. No secret is ever printed.
`;

const ends = `
Output
  --json              one JSON document, for machines
  NO_COLOR            in the environment: no colours, as when the output is piped
`;

/** For each command. */
export const helpOf: Record<CommandName, string> = {
  inspect: `leasehold inspect NAME [--node URL]...

Who holds the lock NAME, on which node, for how long and under which fence. Reads only, and only
where locks are granted: a replica has no vote. Tokens are shortened, as a whole one could release
the lock.
${nodeOptions}
  --quorum N          how many nodes a holder needs (a majority)
${ends}
Ends with
  0   free or held
  1   minority: a token on too few nodes; split: two tokens
  2   a mistake in the command line
  3   unreachable: those that did not answer decide

Examples
  leasehold inspect invoice:42 --node redis://127.0.0.1:6379
  leasehold inspect nightly --node redis://a:6379 --node redis://b:6379 --node https://c.upstash.io
`,
  doctor: `leasehold doctor [--node URL]...

Whether the nodes can be trusted with locks: clocks, versions, scripts, roles and replicas,
eviction, persistence, round trips, and whether they are independent. Reads only.
${nodeOptions}
  --lease MS          the lease that is used (10000), against which clocks and round trips are judged
  --quorum N          how many nodes a holder needs (a majority)
  --drift FACTOR      by which part of a lease clocks may disagree (0.01)
  --all               also lists what is in order
${ends}
Ends with
  0   nothing wrong; what a server does not let itself be asked is "unknown"
  1   an error or a warning
  2   a mistake in the command line
  3   too few nodes answered

Examples
  leasehold doctor --node redis://127.0.0.1:6379
  leasehold doctor --json --lease 30000 --node redis://a:6379 --node redis://b:6379 --node redis://c:6379
`,
  "self-test": `leasehold self-test [--node URL]...

Acquires under a throw-away name on each node, and proves what a lock promises: exclusive, a wrong
token does not release, expiry, fences grow, a token finds what it was granted, and one that was
rolled back is never granted again. Leaves nothing behind, also after Ctrl-C.
${nodeOptions}${ends}
Ends with
  0   every promise was kept
  1   one was broken
  2   a mistake in the command line
  3   a node did not answer

Examples
  leasehold self-test --node redis://127.0.0.1:6379
  UPSTASH_REDIS_REST_URL=https://eu.upstash.io leasehold self-test --token-file ~/.upstash-token
`,
  serve: `leasehold serve [--redis URL] [--port N]

Serves a Redis as the Upstash REST protocol, for tests and local work. Without --redis it is one in
memory, which knows the commands and scripts of leasehold, and forgets everything at its end.
Ctrl-C ends it, after the requests under way.

  --redis URL         redis:// or rediss://; the password is taken from the URL, else from REDISCLI_AUTH
  --port N            8079; 0 for any free one
  --host ADDRESS      127.0.0.1; any other needs a token of your own
  --token TEXT        what callers must send. Others on this machine can see it: better is
  --token-file PATH   a file with it, or
  --token-env NAME    a variable with it (UPSTASH_REDIS_REST_TOKEN)
                      Without any of them it is "local", in memory and on this machine only
  --json              one JSON line once it serves

Ends with
  0   it was told to end
  2   a mistake in the command line, or a port that is taken
  3   the Redis did not answer

Examples
  leasehold serve
  UPSTASH_REDIS_REST_TOKEN=secret leasehold serve --redis redis://127.0.0.1:6379 --port 8080
`,
};

/** For the whole. */
export const help = `leasehold COMMAND [options]

  inspect NAME   who holds a lock, on which node, and for how long
  doctor         whether the nodes can be trusted with locks
  self-test      proves on each node what a lock promises
  serve          serves a Redis, or one in memory, as the Upstash REST protocol

  leasehold COMMAND --help says more. leasehold --version says which version this is.

Examples
  leasehold inspect invoice:42 --node redis://127.0.0.1:6379
  leasehold doctor --node redis://a:6379 --node redis://b:6379 --node https://c.upstash.io
  leasehold self-test
  leasehold serve --port 8079
`;
