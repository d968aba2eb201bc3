/**
 * A small object store over HTTP, as S3 is one to its readers and writers: ETags, `If-Match`, `If-None-Match: *`.
 *
 * @module
 */
import { createHash } from "node:crypto";
import { createServer } from "node:http";
import { text } from "node:stream/consumers";
import { listen } from "../support/redis.ts";

/** The store, on the loopback interface. */
export interface ObjectStore extends AsyncDisposable {
  readonly url: URL;
}

/** Starts it. An ETag is the MD5 of the content, as in S3 for an object that was sent in one part without KMS. */
export async function startObjectStore(): Promise<ObjectStore> {
  const objects = new Map<string, string>();
  const etagOf = (body: string): string => `"${createHash("md5").update(body).digest("hex")}"`;
  const server = createServer(async (request, response) => {
    const { url: path = "/", method, headers } = request;
    const sent = await text(request);
    // From here on nothing waits, so the comparison and the write are one step.
    const stored = objects.get(path);
    const end = (status: number, body = ""): void => void response.writeHead(status, etag(body)).end(body);
    const etag = (body: string): Record<string, string> => (body ? { etag: etagOf(body) } : {});
    if (method === "GET") return stored === undefined ? end(404) : end(200, stored);
    if (method !== "PUT") return end(405);
    if (headers["if-none-match"] === "*" && stored !== undefined) return end(412);
    const wanted = headers["if-match"];
    if (wanted !== undefined && stored === undefined) return end(404);
    if (wanted !== undefined && stored !== undefined && wanted !== etagOf(stored)) return end(412);
    objects.set(path, sent);
    end(200);
  });
  const port = await listen(server);
  return {
    url: new URL(`http://127.0.0.1:${port}/`),
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}
