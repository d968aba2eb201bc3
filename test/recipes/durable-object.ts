import type { DurableObjectState, DurableObjectStorage } from "@cloudflare/workers-types";

/** Takes `{ fence, value }`, or `{ fence }` to touch and read. Answers with the value, or 409 when a newer fence has written. */
export class Invoice {
  readonly #storage: DurableObjectStorage;

  constructor({ storage }: DurableObjectState) {
    this.#storage = storage;
  }

  async fetch(request: Request): Promise<Response> {
    const { fence, value }: { fence: number; value?: string } = await request.json();
    return this.#storage.transaction(async (stored) => {
      if (fence < ((await stored.get<number>("fence")) ?? 0)) return new Response("too late", { status: 409 });
      await stored.put("fence", fence);
      if (value !== undefined) await stored.put("value", value);
      return Response.json({ value: await stored.get<string>("value") });
    });
  }
}
