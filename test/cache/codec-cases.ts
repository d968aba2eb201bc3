/**
 * What each codec must give back as it was given, and what it must refuse, wherever the text goes in between.
 *
 * @module
 */
import { type Codec, jsonCodec } from "../../src/cache/codec.ts";
import { bytesCodec, deflated, textCodec } from "../../src/cache/codecs.ts";

const dates: Codec = {
  name: "date",
  encode: (value) => (value instanceof Date ? value.toISOString() : undefined),
  decode: (text) => new Date(text),
};

const longText = "日本 🙂 é\u0000\n".repeat(20_000);
const everyByte = Uint8Array.from({ length: 256 }, (_, place) => place);

/** A codec, and values that it has a form for. */
export const written: readonly (readonly [string, Codec, readonly unknown[]])[] = [
  ["json", jsonCodec, [null, 0, "", false, [], { a: [1] }, "日本 🙂", "\ud800", longText]],
  ["text", textCodec, ["", "n", "s", "日本 🙂", "\u0000\n", "0", "17", '{"a":1}', longText, null]],
  ["bytes", bytesCodec, [new Uint8Array(), everyByte, new Uint8Array(100_000).fill(7), null]],
  ["one of one's own", dates, [new Date(0)]],
  [
    "deflated json",
    deflated(),
    [null, 0, "", "short", Array<string>(5_000).fill("long"), { text: "日本\ud800 🙂".repeat(2_000) }],
  ],
  ["deflated text", deflated(textCodec, { above: 0 }), ["", "d", "p", "日本 🙂", longText, null]],
  [
    "deflated bytes",
    deflated(bytesCodec, { above: 0 }),
    [new Uint8Array(), everyByte, new Uint8Array(50_000).fill(1), null],
  ],
];

/** A codec, and a value that it has no form for. */
export const refused: readonly (readonly [string, Codec, unknown])[] = [
  ["text", textCodec, 0],
  ["text", textCodec, "half \ud800"],
  ["bytes", bytesCodec, "text"],
  ["bytes", bytesCodec, [1, 2]],
  ["bytes", bytesCodec, ""],
  ["bytes", bytesCodec, new Int8Array(2)],
  ["json", jsonCodec, undefined],
  ["json", jsonCodec, 1n],
  ["deflated json", deflated(), undefined],
  ["deflated text", deflated(textCodec), 0],
  ["date", dates, "today"],
];
