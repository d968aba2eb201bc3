/** What the lock guards: a key on a Redis of its own, written with the shipped `fencedSet` by whoever believes to hold. */
import type { CommandClient, Reply } from "../../src/command.ts";
import { fencedSet } from "../../src/fence.ts";
import type { Fate } from "./fate.ts";
import type { Held } from "./lock-checker.ts";
import type { SimNode } from "./node.ts";
import type { Timeline } from "./timeline.ts";
import type { Report } from "./violation.ts";

const key = "resource";

/** I5: it takes a write when no newer fence has written, and so never goes back to a holder of the past. */
export class FencedResource {
  readonly #timeline: Timeline;
  readonly #fate: Fate;
  readonly #node: SimNode;
  readonly #report: Report;
  readonly #writers = new Map<string, Held>();
  #last: Held | undefined;

  constructor(timeline: Timeline, fate: Fate, node: SimNode, report: Report) {
    this.#timeline = timeline;
    this.#fate = fate;
    this.#node = node;
    this.#report = report;
  }

  /** Begins a write; it lands late, and now and then once more, later still. */
  write(held: Held, name: string): void {
    const { fence, token } = held.lease;
    this.#writers.set(token, held);
    const client: CommandClient = {
      execute: (command) =>
        new Promise((resolve, reject) => {
          const land = (): Reply => {
            const reply = this.#node.execute(command);
            this.#look(fence, reply);
            return reply;
          };
          const lateMs = 4_000 * this.#fate.chance(`${name} lands`) ** 4;
          this.#timeline.after(lateMs, () => {
            try {
              resolve(land());
            } catch (error) {
              reject(error);
            }
          });
          const again = this.#fate.fault(`${name} lands twice`, 0.1);
          if (again) this.#timeline.after(lateMs + 4_000 * this.#fate.chance(`${name} lands again`), land);
        }),
    };
    const writing = fencedSet(client, { key, value: token, fence }, held.process.environment);
    writing.catch((error: unknown) => this.#report("I5", String(error)));
  }

  #look(fence: number, reply: Reply): void {
    const writer = this.#writers.get(this.#node.holder(key) ?? "");
    const last = this.#last;
    if (reply === 0 && (last === undefined || fence >= last.lease.fence)) {
      this.#report("I5", `a write with fence ${fence} was refused, and no newer one has written`);
    }
    if (writer === undefined || last === writer) return;
    if (last !== undefined && writer.returnedAt < last.calledAt) {
      this.#report("I5", `${writer.process.name} wrote after ${last.process.name}, whose lease is younger`);
    }
    this.#last = writer;
  }
}
