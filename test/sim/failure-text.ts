/** What is shown of a failure: all that it takes to see it again. */
import type { Failure } from "./batch.ts";

/** With the command that replays it, of a mutant where one has failed. */
export function failureText({ violation, replay }: Failure, mutant?: string): string {
  const { invariant, what, atMs } = violation;
  const options = mutant === undefined ? "" : `--mutant ${mutant} `;
  return [
    `seed ${replay.seed} of ${replay.profile}, at ${atMs.toFixed(3)} ms: ${invariant} ${what}`,
    ...(replay.only ?? []).map((fault) => `  ${fault}`),
    `See it again: npm run sim -- ${options}--replay '${JSON.stringify(replay)}'`,
  ].join("\n");
}
