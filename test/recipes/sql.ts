import type { DatabaseSync } from "node:sqlite";

/** The fenced touch: from here on older holders are refused. False when a newer one was here. */
export function claim(db: DatabaseSync, id: number, fence: number): boolean {
  const touch = db.prepare("UPDATE invoices SET fence = ? WHERE id = ? AND fence <= ?");
  return touch.run(fence, id, fence).changes === 1;
}

/** False when a newer fence has written: then nothing has changed. */
export function write(db: DatabaseSync, id: number, fence: number, status: string): boolean {
  const update = db.prepare("UPDATE invoices SET status = ?, fence = ? WHERE id = ? AND fence <= ?");
  return update.run(status, fence, id, fence).changes === 1;
}
