/**
 * The resource that the tasks of the demonstration write to: one entry a task. It keeps the highest fence that it has seen of
 * each, and refuses smaller ones. It does not know what a lock is.
 *
 * @module
 */
import { Hono } from "hono";
import { serve } from "../../stampede/parts.ts";

/** One task, as the ledger has it. */
export interface Entry {
  fence: number;
  /** How often the entry was made. Once is right. */
  made: number;
}

/** The ledger, as the demonstration sees it. */
export interface Ledger {
  readonly url: string;
  readonly entries: ReadonlyMap<string, Entry>;
  /** Writes that came with too small a fence. */
  refused(): number;
}

/** How the ledger is started. */
export interface LedgerSettings {
  /** False takes every write, as a resource does that knows no fences. */
  readonly fenced: boolean;
  /** An attempt has announced itself. It is answered afterwards, so what this does to the worker hits it in mid-task. */
  readonly onTouch: (task: string, worker: string) => void;
}

/**
 * Starts it. An attempt first sends a touch, which writes its fence alone and says whether the entry has been made, and then
 * the write. From the touch on earlier attempts are refused, so what it was told stays true.
 */
export async function startLedger(parts: AsyncDisposableStack, settings: LedgerSettings): Promise<Ledger> {
  const entries = new Map<string, Entry>();
  let refused = 0;
  const app = new Hono();
  app.post("/:task/:step{touch|write}", async (c) => {
    const { task, step } = c.req.param();
    const { fence, worker } = await c.req.json<{ fence: number; worker: string }>();
    const entry = entries.get(task) ?? { fence: 0, made: 0 };
    entries.set(task, entry);
    if (settings.fenced && fence < entry.fence) {
      refused++;
      return c.json({ error: "a newer fence has been here" }, 409);
    }
    entry.fence = fence;
    if (step === "write") entry.made++;
    else settings.onTouch(task, worker);
    return c.json({ made: entry.made });
  });
  return { url: await serve(parts, app.fetch), entries, refused: () => refused };
}
