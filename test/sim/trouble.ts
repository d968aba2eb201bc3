/** What befalls processes and nodes, each at times of its own. */
import type { Fate } from "./fate.ts";
import type { SimNode } from "./node.ts";
import type { Process } from "./process.ts";
import type { Trouble } from "./profiles.ts";
import type { Timeline } from "./timeline.ts";

export interface Stage {
  readonly timeline: Timeline;
  readonly fate: Fate;
  readonly processes: readonly Process[];
  readonly nodes: readonly SimNode[];
  readonly lengthMs: number;
  /** The key that an intruder takes. */
  readonly key: string;
  forgot(node: SimNode): void;
}

/** Schedules all of it. */
export function makeTrouble(stage: Stage, trouble: Trouble): void {
  const { timeline, fate, processes, nodes } = stage;
  for (const process of processes) {
    // Both clocks wrong at once, one set back while the other stood still, is more than any client can see.
    const isSleeper = fate.chance(`sleeper ${process.name}`) < 0.5;
    often(stage, `freeze ${process.name}`, trouble.freezeEveryMs, (what) => {
      process.freeze(fate.uniform(`${what} ms`, 200, 2_700), isSleeper);
    });
    often(stage, `step ${process.name}`, isSleeper ? 0 : trouble.clientStepEveryMs, (what) => {
      process.step(60_000 * fate.uniform(`${what} ms`, -1, 1) ** 5); // many by less than a lease
    });
    for (const node of nodes) {
      often(stage, `cut off ${process.name} from ${node.label}`, trouble.cutOffEveryMs, (what) => {
        process.cutOff.add(node);
        timeline.after(fate.uniform(`${what} ms`, 100, 4_000), () => void process.cutOff.delete(node));
      });
    }
  }
  for (const [place, node] of nodes.entries()) {
    const isFickle = place < trouble.fickleNodes;
    often(stage, `server step ${node.label}`, isFickle ? trouble.serverStepEveryMs : 0, (what) => {
      node.step(Math.round(fate.uniform(`${what} ms`, ...trouble.serverStepMs)));
    });
    const restart = (what: string): void => {
      node.isDown = true;
      timeline.after(fate.uniform(`${what} ms`, ...trouble.restartMs), () => {
        const forgets = isFickle && trouble.forgets;
        node.restart(forgets);
        if (forgets) stage.forgot(node);
      });
    };
    often(stage, `restart ${node.label}`, trouble.restartEveryMs, restart);
    often(stage, "power cut", trouble.powerCutEveryMs, (what) => restart(`${what} ${node.label}`));
    often(stage, `snapshot ${node.label}`, trouble.snapshotEveryMs, () => node.save());
    often(stage, `full ${node.label}`, trouble.fullEveryMs, (what) => {
      node.isFull = true;
      timeline.after(fate.uniform(`${what} ms`, 100, 1_000), () => {
        node.isFull = false;
      });
    });
    often(stage, `intruder ${node.label}`, trouble.intruderEveryMs, (what) => {
      if (node.isFull || node.isDown || node.holder(stage.key) !== undefined) return;
      node.execute(["RPUSH", stage.key, "not a lock"]);
      timeline.after(fate.uniform(`${what} ms`, 100, 1_000), () => void node.execute(["DEL", stage.key]));
    });
  }
}

function often(
  { timeline, fate, lengthMs }: Stage,
  what: string,
  everyMs: number,
  happens: (what: string) => void,
): void {
  if (everyMs === 0) return;
  let at = 0;
  for (let place = 0; ; place += 1) {
    const name = `${what} ${place}`;
    at += -everyMs * Math.log(1 - fate.chance(`${name} when`));
    if (at >= lengthMs) return;
    timeline.at(at, () => {
      if (fate.fault(name, 1)) happens(name);
    });
  }
}
