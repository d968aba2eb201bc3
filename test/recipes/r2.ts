import type { R2Bucket } from "@cloudflare/workers-types";

/** What the object holds. With the fence in it, no two writes of different holders have the same etag. */
interface Stored {
  readonly fence: number;
  readonly value?: string | undefined;
}

/** False when a newer fence has written. Without a value it keeps the one that is there: the fenced touch. */
export async function write(bucket: R2Bucket, key: string, fence: number, value?: string): Promise<boolean> {
  for (;;) {
    const object = await bucket.get(key);
    const seen = await object?.json<Stored>();
    if (seen && seen.fence > fence) return false;
    const stored: Stored = { fence, value: value ?? seen?.value };
    const onlyIf = object ? { etagMatches: object.etag } : { etagDoesNotMatch: "*" };
    if (await bucket.put(key, JSON.stringify(stored), { onlyIf })) return true;
    // Another write came between: look again.
  }
}
