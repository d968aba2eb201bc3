import { DatabaseSync } from "node:sqlite";
import { describe, expect, test } from "vitest";
import { refusesLateWrites } from "./late-writes.ts";
import { claim, write } from "./sql.ts";

function open(): DatabaseSync {
  const db = new DatabaseSync(":memory:");
  db.exec("CREATE TABLE invoices (id BIGINT PRIMARY KEY, status VARCHAR(20), fence BIGINT NOT NULL DEFAULT 0)");
  db.exec("INSERT INTO invoices (id) VALUES (42)");
  return db;
}

describe("a row in SQL", () => {
  refusesLateWrites(async () => {
    const db = open();
    return {
      claim: async (fence) => claim(db, 42, fence),
      write: async (fence, value) => write(db, 42, fence, value),
      read: async () => db.prepare("SELECT status FROM invoices WHERE id = 42").get()?.status?.toString(),
    };
  });

  test("that is not there takes no write", () => {
    expect(claim(open(), 43, 1)).toBe(false);
    expect(write(open(), 43, 1, "paid")).toBe(false);
  });

  test("keeps a fence exactly", () => {
    const db = open();
    expect(write(db, 42, 2 ** 53 - 1, "paid")).toBe(true);
    expect(write(db, 42, 2 ** 53 - 2, "late")).toBe(false);
    expect(db.prepare("SELECT fence FROM invoices").get()).toEqual({ fence: 2 ** 53 - 1 });
  });
});
