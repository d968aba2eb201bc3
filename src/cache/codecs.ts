/**
 * Ways to write values other than JSON: strings, bytes, and anything compressed. Whoever imports none pays for none.
 *
 * @module
 */
import { checkFunction, invalid } from "../validate.ts";
import { type Codec, jsonCodec } from "./codec.ts";

/**
 * Strings as they are, and `null`; anything else is refused, and so is a lone surrogate, which has no form in UTF-8.
 *
 * @example
 * ```ts
 * import { createCache, textCodec } from "leasehold";
 * import { memoryClient } from "leasehold/memory";
 *
 * const pages = createCache(memoryClient(), { prefix: "pages", codec: textCodec });
 * console.log(await pages.get("/", { freshMs: 60_000 }, () => "<h1>Hello</h1>"));
 * ```
 */
export const textCodec: Codec = {
  name: "text",
  encode(value) {
    if (value === null) return "n";
    return typeof value === "string" && /^\P{Surrogate}*$/u.test(value) ? `s${value}` : undefined;
  },
  decode: (text) => (text === "n" ? null : text.slice(1)),
};

/**
 * A `Uint8Array`, and `null`; anything else is refused. Takes a third more room than the bytes themselves.
 *
 * @example
 * ```ts
 * import { bytesCodec, createCache } from "leasehold";
 * import { memoryClient } from "leasehold/memory";
 *
 * const images = createCache(memoryClient(), { prefix: "images", codec: bytesCodec });
 * const pixel = await images.get("pixel", { freshMs: 60_000 }, () => new Uint8Array([255, 0, 0]));
 * console.log(pixel.length); // 3
 * ```
 */
export const bytesCodec: Codec = {
  name: "bytes",
  encode(value) {
    if (value === null) return "n";
    return value instanceof Uint8Array ? `b${toBase64(value)}` : undefined;
  },
  decode: (text) => (text === "n" ? null : fromBase64(text.slice(1))),
};

/** How long a text must be for compression to be worth its time. */
const usualLength = 4_096;

/**
 * Another codec whose text is compressed where that makes it shorter: by `CompressionStream`, and as base64. Where a
 * runtime has none it writes the text as it is, and cannot read what another has compressed.
 *
 * @param options above which length of the text, in UTF-16 units: 4,096 by default
 *
 * @example
 * ```ts
 * import { createCache, deflated, jsonCodec } from "leasehold";
 * import { memoryClient } from "leasehold/memory";
 *
 * const reports = createCache(memoryClient(), { prefix: "reports", codec: deflated(jsonCodec) });
 * const rows = await reports.get("2026", { freshMs: 60_000 }, () => Array<string>(5_000).fill("row"));
 * console.log(rows.length);
 * ```
 */
export function deflated(codec: Codec = jsonCodec, options?: { readonly above?: number | undefined }): Codec {
  const { above = usualLength } = options ?? {};
  checkFunction("codec.decode", codec?.decode);
  return {
    name: `${codec.name}+deflate`,
    version: codec.version,
    maxLength: codec.maxLength,
    async encode(value) {
      const text = await codec.encode(value);
      if (text === undefined) return undefined;
      if (text.length <= above || typeof CompressionStream === "undefined") return `p${text}`;
      const bytes = new TextEncoder().encode(text);
      const packed = toBase64(await through(bytes, new CompressionStream("deflate-raw")));
      return packed.length < text.length ? `d${packed}` : `p${text}`;
    },
    async decode(text) {
      const rest = text.slice(1);
      if (text.startsWith("p")) return codec.decode(rest);
      const bytes = await through(fromBase64(rest), new DecompressionStream("deflate-raw"));
      return codec.decode(new TextDecoder("utf-8", { ignoreBOM: true }).decode(bytes));
    },
  };
}

/**
 * Another codec whose texts are not stored where they are longer than this, in UTF-16 units: the value is given to the
 * callers who waited for its build, and `set` rejects. Without it the limit is that of Redis, which then refuses.
 *
 * @throws LockError "config" when the length is no number of 0 or more
 *
 * @example
 * ```ts
 * import { capped, createCache, jsonCodec } from "leasehold";
 * import { memoryClient } from "leasehold/memory";
 *
 * const cache = createCache(memoryClient(), { codec: capped(jsonCodec, 1_000_000) });
 * const report = await cache.getEntry("report", { freshMs: 60_000 }, () => "x".repeat(2_000_000));
 * console.log(report.value.length, report.stored); // 2000000 false
 * ```
 */
export function capped(codec: Codec, maxLength: number): Codec {
  checkFunction("codec.decode", codec?.decode);
  if (!(typeof maxLength === "number" && maxLength >= 0))
    throw invalid("maxLength", maxLength, "a number of 0 or more");
  return {
    name: codec.name,
    version: codec.version,
    maxLength,
    encode: (value) => codec.encode(value),
    decode: (text) => codec.decode(text),
  };
}

async function through(bytes: Uint8Array<ArrayBuffer>, stream: CompressionStream): Promise<Uint8Array> {
  return new Uint8Array(await new Response(new Blob([bytes]).stream().pipeThrough(stream)).arrayBuffer());
}

function toBase64(bytes: Uint8Array): string {
  let text = "";
  for (let at = 0; at < bytes.length; at += 8_192) text += String.fromCharCode(...bytes.subarray(at, at + 8_192));
  return btoa(text);
}

function fromBase64(text: string): Uint8Array<ArrayBuffer> {
  return Uint8Array.from(atob(text), (char) => char.charCodeAt(0));
}
