/** True time, which no process can read: a queue of events, each of which runs with all that follows from it. */

interface Event {
  readonly at: number;
  readonly order: number;
  run: (() => void) | undefined;
}

export class Timeline {
  /** In ms since the run began. */
  now = 0;
  events = 0;
  /** A hash of when each event took place: whatever chance decides moves some of them. */
  course = 0;
  readonly #heap: Event[] = [];
  #lastOrder = 0;

  /** Runs something later, after whatever is due at the same instant already. Returns what cancels it. */
  at(time: number, run: () => void): () => void {
    this.#lastOrder += 1;
    const event: Event = { at: Math.max(this.now, time), order: this.#lastOrder, run };
    this.#push(event);
    return () => {
      event.run = undefined;
    };
  }

  after(ms: number, run: () => void): () => void {
    return this.at(this.now + ms, run);
  }

  /** Runs what is due up to an instant; `stop`, which is asked before each event, ends it earlier. */
  async runUntil(end: number, stop: () => boolean): Promise<void> {
    await quiet();
    for (let event = this.#heap[0]; event !== undefined && event.at <= end && !stop(); event = this.#heap[0]) {
      this.#pop();
      if (event.run === undefined) continue;
      this.now = event.at;
      this.events += 1;
      this.course = Math.imul(this.course ^ (event.at * 4_096), 0x01000193);
      event.run();
      await quiet();
    }
    if (!stop()) this.now = Math.max(this.now, end);
  }

  #push(event: Event): void {
    const heap = this.#heap;
    let place = heap.push(event) - 1;
    while (place > 0) {
      const parent = (place - 1) >> 1;
      const above = heap[parent];
      if (above === undefined || !earlier(event, above)) break;
      heap[place] = above;
      place = parent;
    }
    heap[place] = event;
  }

  #pop(): void {
    const heap = this.#heap;
    const last = heap.pop();
    if (last === undefined || heap.length === 0) return;
    let place = 0;
    for (;;) {
      const [left, right] = [heap[2 * place + 1], heap[2 * place + 2]];
      if (left === undefined) break;
      const goRight = right !== undefined && earlier(right, left);
      const least = goRight ? right : left;
      if (!earlier(least, last)) break;
      heap[place] = least;
      place = 2 * place + (goRight ? 2 : 1);
    }
    heap[place] = last;
  }
}

function earlier(a: Event, b: Event): boolean {
  return a.at < b.at || (a.at === b.at && a.order < b.order);
}

/**
 * Runs every promise reaction that is due, and all that follow from it: Node's tick queue is served only when the queue
 * of microtasks is empty. A quarter of the cost of a turn of the event loop.
 */
function quiet(): Promise<void> {
  return new Promise((resolve) => process.nextTick(resolve));
}
