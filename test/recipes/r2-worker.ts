/** A Worker that writes by the recipe for R2; on request something comes between its look and its write. */
import type { R2Bucket } from "@cloudflare/workers-types";
import { write } from "./r2.ts";

/** What it is asked for. */
export interface WriteRequest {
  readonly key: string;
  readonly fence: number;
  readonly value?: string | undefined;
  /** The write of another holder, just before the first `put`. */
  readonly between?: { readonly fence: number; readonly value?: string | undefined } | undefined;
}

function interrupted(bucket: R2Bucket, before: () => Promise<unknown>): R2Bucket {
  let pause: typeof before | undefined = before;
  const put = async (...args: Parameters<R2Bucket["put"]>): Promise<unknown> => {
    const pausing = pause?.();
    pause = undefined;
    await pausing;
    return bucket.put(...args);
  };
  return new Proxy(bucket, { get: (target, name) => (name === "put" ? put : Reflect.get(target, name).bind(target)) });
}

const worker: { fetch(request: Request, env: { readonly BUCKET: R2Bucket }): Promise<Response> } = {
  async fetch(request, { BUCKET }) {
    const { key, fence, value, between }: WriteRequest = await request.json();
    const bucket = between ? interrupted(BUCKET, () => write(BUCKET, key, between.fence, between.value)) : BUCKET;
    return Response.json(await write(bucket, key, fence, value));
  },
};

export default worker;
