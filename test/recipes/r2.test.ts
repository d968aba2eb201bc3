import type { Miniflare } from "miniflare";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { refusesLateWrites } from "./late-writes.ts";
import type { WriteRequest } from "./r2-worker.ts";
import { startWorker } from "./workerd.ts";

describe("an object in R2", () => {
  let workerd: Miniflare;
  let url: URL;
  let bucket: Awaited<ReturnType<Miniflare["getR2Bucket"]>>;
  let objects = 0;

  beforeAll(async () => {
    workerd = await startWorker('export { default } from "./r2-worker.ts";', { r2Buckets: ["BUCKET"] });
    url = await workerd.ready;
    bucket = await workerd.getR2Bucket("BUCKET");
  });
  afterAll(() => workerd.dispose());

  const freshKey = (): string => {
    objects += 1;
    return `invoice-${objects}`;
  };
  const write = async (request: WriteRequest): Promise<boolean> => {
    const response = await fetch(url, { method: "POST", body: JSON.stringify(request) });
    if (!response.ok) throw new Error(`The Worker answered ${response.status}: ${await response.text()}`);
    return response.json();
  };
  const read = async (key: string): Promise<string | undefined> =>
    JSON.parse((await (await bucket.get(key))?.text()) ?? "{}").value;

  refusesLateWrites(async () => {
    const key = freshKey();
    return {
      claim: (fence) => write({ key, fence }),
      write: (fence, value) => write({ key, fence, value }),
      read: () => read(key),
    };
  });

  test.each([
    { between: "another value", value: "paid", left: "paid" },
    { between: "the same value", value: "begun", left: "begun" },
    { between: "a touch", value: undefined, left: "begun" },
  ])(
    "refuses a holder that was paused between its look and its write: $between came between",
    async ({ value, left }) => {
      const key = freshKey();
      await write({ key, fence: 1, value: "begun" });
      expect(await write({ key, fence: 1, value: "late", between: { fence: 2, value } })).toBe(false);
      expect(await read(key)).toBe(left);
    },
  );

  test("refuses one that was paused so before the first write of all", async () => {
    const key = freshKey();
    expect(await write({ key, fence: 1, value: "late", between: { fence: 2, value: "paid" } })).toBe(false);
    expect(await read(key)).toBe("paid");
  });

  test("has the same etag for the same content, whatever its metadata: a fence there is not compared", async () => {
    const put = (fence: string) => bucket.put("same", "begun", { customMetadata: { fence } });
    const before = await put("1");
    const after = await put("2");
    expect(after.version).not.toBe(before.version);
    expect(after.etag).toBe(before.etag);
    expect(await bucket.put("same", "late", { onlyIf: { etagMatches: before.etag } })).not.toBeNull();
  });
});
