import type { Miniflare } from "miniflare";
import { afterAll, beforeAll, describe } from "vitest";
import { refusesLateWrites } from "./late-writes.ts";
import { startWorker } from "./workerd.ts";

/** A Worker that hands every request to the object of its path. */
const worker = `
export { Invoice } from "./durable-object.ts";
export default {
  fetch: (request, env) => env.INVOICES.get(env.INVOICES.idFromName(new URL(request.url).pathname)).fetch(request),
};`;

describe.each([
  { storage: "SQLite", useSQLite: true },
  { storage: "key-value", useSQLite: false },
])("a Durable Object on $storage storage", ({ useSQLite }) => {
  let workerd: Miniflare;
  let url: URL;
  let objects = 0;

  beforeAll(async () => {
    const durableObjects = { INVOICES: { className: "Invoice", useSQLite } };
    workerd = await startWorker(worker, { durableObjects });
    url = await workerd.ready;
  });
  afterAll(() => workerd.dispose());

  refusesLateWrites(async () => {
    objects += 1;
    const object = new URL(`/${objects}`, url);
    let newest = 0;
    const post = async (body: { fence: number; value?: string }): Promise<Response> => {
      const response = await fetch(object, { method: "POST", body: JSON.stringify(body) });
      if (!response.ok && response.status !== 409) {
        throw new Error(`The object answered ${response.status}: ${await response.text()}`);
      }
      if (response.ok) newest = Math.max(newest, body.fence);
      return response;
    };
    return {
      claim: async (fence) => (await post({ fence })).ok,
      write: async (fence, value) => (await post({ fence, value })).ok,
      read: async () => (await (await post({ fence: newest })).json()).value,
    };
  });
});
