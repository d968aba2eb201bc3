/**
 * Lets the builds of a cache run one at a time while Redis is down: nobody else limits them then.
 *
 * @module
 */
import type { Flight } from "./flight.ts";

/**
 * Runs a build that never rejects when its turn has come: in the order of the calls, within one process. At once where a
 * build waits for this one, as it may be the one whose turn it is; so there are no turns where the runtime cannot tell
 * which flights are nested.
 */
export function inTurn(flight: Flight, build: () => Promise<void>): Promise<void> {
  const { context } = flight;
  const { builds, env, turn } = context;
  if (!builds || env.host.isolatesRequests || flight.isNested) return build();
  if (turn) flight.waitFor(); // refuses those who are overdue
  const begins = new Promise<void>((begin) => {
    flight.begin = begin;
    if (turn) void turn.then(begin);
    else begin();
  });
  const own = begins.then(build).finally(() => {
    if (context.turn === own) context.turn = undefined;
  });
  context.turn = own;
  return own;
}
