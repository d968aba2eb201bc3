/**
 * A `fetch` that no network is behind: it keeps what it was asked, and answers as told.
 *
 * @module
 */
import type { RestRequest, RestResponse } from "../../adapters/rest.ts";

/** One call of the double. */
export interface Call extends RestRequest {
  readonly url: string;
}

/** A double and the calls it got. */
export interface FetchDouble {
  readonly calls: Call[];
  fetch(url: string, request: RestRequest): Promise<RestResponse>;
}

/** Answers every request with what `respond` makes of it. */
export function fetchDouble(respond: (call: Call) => RestResponse | Promise<RestResponse>): FetchDouble {
  const calls: Call[] = [];
  return {
    calls,
    async fetch(url, request) {
      const call = { url, ...request };
      calls.push(call);
      return respond(call);
    },
  };
}

/** A double with six connections. */
export interface SixConnections extends FetchDouble {
  /** How many were in use at a time. */
  most(): number;
}

/** It has six connections, as a Worker: one is taken until the body of its response is read. */
export function sixConnections(respond: (call: Call) => RestResponse | Promise<RestResponse>): SixConnections {
  let [free, most] = [6, 0];
  const queue: (() => void)[] = [];
  const double = fetchDouble(async (call) => {
    while (free === 0) await new Promise<void>((resolve) => queue.push(resolve));
    free -= 1;
    most = Math.max(most, 6 - free);
    const response = await respond(call);
    return {
      status: response.status,
      headers: response.headers,
      text() {
        free += 1;
        queue.shift()?.();
        return response.text();
      },
    };
  });
  return { ...double, most: () => most };
}

/** A response with a text, or with a value as JSON. */
export function answer(status: number, body: unknown, headers: Record<string, string> = {}): Response {
  return new Response(typeof body === "string" ? body : JSON.stringify(body), { status, headers });
}

/** A promise and what settles it, as `Promise.withResolvers` gives it from Node 22 on. */
export interface Gate<T> {
  readonly promise: Promise<T>;
  open(value: T): void;
}

/** A promise that the test fulfils when it wants to. */
export function gate<T>(): Gate<T> {
  let open: (value: T) => void = () => {};
  const promise = new Promise<T>((resolve) => {
    open = resolve;
  });
  return { promise, open };
}

/** A response that tells how its body ended: "read" to its end, or "cancelled". */
export function watched(status: number, text: string): { response: Response; ended: Promise<string> } {
  const ended = gate<string>();
  let rest = [text, " "].filter((part) => part !== "");
  const body = new ReadableStream<Uint8Array>(
    {
      pull(controller) {
        const [part] = rest;
        rest = rest.slice(1);
        if (part !== undefined) return controller.enqueue(new TextEncoder().encode(part));
        controller.close();
        ended.open("read");
      },
      cancel: () => ended.open("cancelled"),
    },
    { highWaterMark: 0 },
  );
  return { response: new Response(body, { status }), ended: ended.promise };
}
