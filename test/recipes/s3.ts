/** What the object holds. With the fence in it, no two writes of different holders have the same ETag. */
interface Stored {
  readonly fence: number;
  readonly value?: string | undefined;
}

/** False when a newer fence has written. Without a value it keeps the one that is there: the fenced touch. */
export async function write(url: URL, fence: number, value?: string, send: typeof fetch = fetch): Promise<boolean> {
  for (;;) {
    const found = await send(url);
    if (!found.ok && found.status !== 404) throw new Error(`Cannot read as the store answered ${found.status}`);
    const seen: Stored | undefined = found.ok ? await found.json() : undefined;
    if (seen && seen.fence > fence) return false;
    const stored: Stored = { fence, value: value ?? seen?.value };
    const etag = found.ok ? found.headers.get("etag") : undefined;
    if (etag === null) throw new Error("Cannot write as the store gave no ETag");
    const headers: Record<string, string> = etag ? { "if-match": etag } : { "if-none-match": "*" };
    const { ok, status } = await send(url, { method: "PUT", headers, body: JSON.stringify(stored) });
    if (ok) return true;
    // 412: another write came between; 409: one is under way. Look again.
    if (status !== 412 && status !== 409) throw new Error(`Cannot write as the store answered ${status}`);
  }
}
