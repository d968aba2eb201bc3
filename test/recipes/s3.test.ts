import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { refusesLateWrites } from "./late-writes.ts";
import { type ObjectStore, startObjectStore } from "./object-store.ts";
import { write } from "./s3.ts";

describe("an object behind If-Match", () => {
  let store: ObjectStore;
  let objects = 0;

  beforeAll(async () => {
    store = await startObjectStore();
  });
  afterAll(() => store[Symbol.asyncDispose]());

  const fresh = (): URL => {
    objects += 1;
    return new URL(`/invoice-${objects}`, store.url);
  };
  const read = async (url: URL): Promise<string | undefined> => (await (await fetch(url)).json()).value;

  refusesLateWrites(async () => {
    const url = fresh();
    return {
      claim: (fence) => write(url, fence),
      write: (fence, value) => write(url, fence, value),
      read: () => read(url),
    };
  });

  /** A `fetch` before whose first PUT something happens. */
  function interrupted(before: () => Promise<unknown>): typeof fetch {
    let pause: typeof before | undefined = before;
    return async (input, init) => {
      if (init?.method === "PUT") {
        const pausing = pause?.();
        pause = undefined;
        await pausing;
      }
      return fetch(input, init);
    };
  }

  test.each([
    { between: "another value", value: "paid", left: "paid" },
    { between: "the same value", value: "begun", left: "begun" },
    { between: "a touch", value: undefined, left: "begun" },
  ])(
    "refuses a holder that was paused between its look and its write: $between came between",
    async ({ value, left }) => {
      const url = fresh();
      await write(url, 1, "begun");
      const between = (): Promise<unknown> => write(url, 2, value);
      expect(await write(url, 1, "late", interrupted(between))).toBe(false);
      expect(await read(url)).toBe(left);
    },
  );

  test("refuses one that was paused so before the first write of all", async () => {
    const url = fresh();
    expect(
      await write(
        url,
        1,
        "late",
        interrupted(() => write(url, 2, "paid")),
      ),
    ).toBe(false);
    expect(await read(url)).toBe("paid");
  });

  test("looks again where another write is under way", async () => {
    const url = fresh();
    let puts = 0;
    const once: typeof fetch = async (input, init) => {
      if (init?.method === "PUT") puts += 1;
      return init?.method === "PUT" && puts === 1 ? new Response(null, { status: 409 }) : fetch(input, init);
    };
    expect(await write(url, 1, "begun", once)).toBe(true);
    expect([puts, await read(url)]).toEqual([2, "begun"]);
  });

  test("says so where the store answers with an error, or without an ETag", async () => {
    const down: typeof fetch = async () => new Response(null, { status: 503 });
    await expect(write(fresh(), 1, "a", down)).rejects.toThrow("Cannot read as the store answered 503");
    const readOnly: typeof fetch = async (input, init) => (init?.method ? down(input, init) : fetch(input));
    await expect(write(fresh(), 1, "a", readOnly)).rejects.toThrow("Cannot write as the store answered 503");
    const untagged: typeof fetch = async () => Response.json({ fence: 1 });
    await expect(write(fresh(), 1, "a", untagged)).rejects.toThrow("gave no ETag");
  });
});
