/** How values are written: codecs and their versions, compression, what is too long, and what says that there is none. */
import { describe, expect, test, vi } from "vitest";
import { type Codec, jsonCodec } from "../../src/cache/codec.ts";
import { capped, deflated, textCodec } from "../../src/cache/codecs.ts";
import { lockError } from "../support/rejection.ts";
import { refused, written } from "./codec-cases.ts";
import { type World, world } from "./world.ts";

const second = 1_000;
const fresh = { freshMs: 60 * second };
const none = (): never => expect.fail("the value is there");

/** What stands in Redis under "k", behind the prefix of its codec. */
async function stored({ redis }: World): Promise<string> {
  const fields = [await redis.execute(["HGETALL", "cache:{k}"])].flat();
  return String(fields[fields.indexOf("p") + 1]);
}

describe("27: a codec", () => {
  test.each(written)("%s gives back what it was given, to the builder and to all others", async (_, codec, values) => {
    for (const value of values) {
      const { cache } = world().process({ options: { codec } });
      expect(await cache.get("k", fresh, () => value)).toEqual(value);
      expect(await cache.getEntry("k", fresh, none)).toMatchObject({ value, status: "hit" });
      expect(await cache.peek("k")).toMatchObject({ value });
      expect(await cache.set("k", value, fresh)).toBe(true);
      expect(await cache.get("k", fresh, none)).toEqual(value);
    }
  });

  test("of another name or version makes an entry a miss, and never fails", async () => {
    const here = world();
    const codecs = [
      jsonCodec,
      textCodec,
      { ...textCodec, version: 2 },
      { ...textCodec, version: 3 },
      deflated(textCodec),
    ];
    for (const [place, codec] of codecs.entries()) {
      const { cache } = here.process({ options: { codec } });
      expect(await cache.peek("k")).toBeUndefined();
      expect(await cache.getEntry("k", fresh, () => `by ${place}`)).toMatchObject({
        value: `by ${place}`,
        requests: 2,
      });
      expect(await cache.get("k", fresh, none)).toBe(`by ${place}`);
    }
  });

  test("of another version gives no old value, neither to a build nor where it fails", async () => {
    const here = world();
    const windows = { freshMs: second, staleMs: 60 * second, errorMs: 60 * second };
    await here.process().cache.set("k", "old", windows);
    await here.clock.advance(2 * second);
    const { cache } = here.process({ options: { codec: { ...jsonCodec, version: 2 } } });
    const handed: unknown[] = [];
    const failing = ({ stale }: { readonly stale: unknown }): never => {
      handed.push(stale);
      throw new Error("no");
    };
    await lockError(cache.get("k", windows, failing), "build-failed");
    expect(handed).toEqual([undefined]);
  });

  test("that cannot read an old value gives none to the build, which replaces it", async () => {
    const here = world();
    await here.process().cache.set("k", "old", fresh);
    const decode = (text: string): unknown => (text.includes("old") ? expect.fail("cannot be read") : JSON.parse(text));
    const { cache } = here.process({ options: { codec: { ...jsonCodec, decode } } });
    await cache.invalidate("k", { soft: true });
    expect(await cache.get("k", fresh, ({ stale }) => [stale])).toEqual([null]);
    expect(await cache.get("k", fresh, none)).toEqual([null]);
  });

  test("may be asynchronous", async () => {
    const { clock, process, pass } = world();
    const slow: Codec = {
      name: "slow",
      encode: (value) => pass(10).then(() => JSON.stringify(value)),
      decode: (text) => pass(10).then(() => JSON.parse(text)),
    };
    for (const codec of [slow, deflated(slow)]) {
      const { cache } = process({ options: { codec } });
      expect(await clock.until(cache.get("k", fresh, () => [1]))).toEqual([1]);
      expect(await clock.until(cache.get("k", fresh, none))).toEqual([1]);
    }
  });

  test.each(refused)("of %s refuses what it has no form for, without showing it", async (_, codec, value) => {
    const { cache, client } = world().process({ options: { codec } });
    const error = await lockError(cache.set("k", value, fresh), "config");
    expect(error.message).toBe(`Cannot store "k" as its codec cannot write it: ${typeof value}`);
    expect(client.sent).toEqual([]);
    const failed = await lockError(
      cache.get("k", fresh, () => value),
      "build-failed",
    );
    expect(failed.cause).toEqual(error);
  });
});

describe("deflated", () => {
  test("compresses above its length, where that is shorter", async () => {
    const here = world();
    const { cache } = here.process({ options: { codec: deflated(textCodec, { above: 100 }) } });
    await cache.set("k", "a".repeat(99), fresh); // 100 with the codec's own letter
    expect(await stored(here)).toContain(`ps${"a".repeat(99)}`);
    await cache.set("k", "a".repeat(10_000), fresh);
    expect((await stored(here)).length).toBeLessThan(100);
    const noise = Array.from({ length: 400 }, (_, i) => String.fromCodePoint(0x4e00 + ((i * 7_919) % 20_000))).join("");
    await cache.set("k", noise, fresh);
    expect(await stored(here)).toContain(noise);
    expect(await cache.get("k", fresh, none)).toBe(noise);
  });

  test("leaves 4,096 units as they are, and all of them where nothing can compress", async () => {
    const here = world();
    const { cache } = here.process({ options: { codec: deflated(textCodec) } });
    await cache.set("k", "a".repeat(4_095), fresh); // and one for the codec's own letter
    expect(await stored(here)).toContain("a".repeat(4_095));
    await cache.set("k", "a".repeat(4_096), fresh);
    expect((await stored(here)).length).toBeLessThan(100);
    vi.stubGlobal("CompressionStream", undefined);
    await cache.set("k", "a".repeat(10_000), fresh);
    vi.unstubAllGlobals();
    expect(await cache.get("k", fresh, none)).toBe("a".repeat(10_000));
  });
});

describe("capped", () => {
  const options = { codec: capped(textCodec, 100) };

  test("stores what is no longer than that, and reads and is read by the codec itself", async () => {
    const here = world();
    const long = "x".repeat(99); // and one for the codec's own letter
    await here.process({ options }).cache.set("k", long, fresh);
    expect(await here.process({ options: { codec: textCodec } }).cache.get("k", fresh, none)).toBe(long);
  });

  test("gives a longer one to those who wait for its build, stores nothing, and lets the next one build", async () => {
    const { clock, process, slow } = world();
    const { cache, verbs, events } = process({ options });
    const build = slow(50, "x".repeat(100));
    const reads = Array.from({ length: 3 }, () => cache.getEntry("k", fresh, build));
    for (const entry of await clock.until(Promise.all(reads))) expect(entry).toMatchObject({ stored: false });
    expect(build.calls).toBe(1);
    expect(verbs()).toEqual(["elect", "tend"]);
    expect(events.at(-1)).toMatchObject({ type: "built", stored: false });
    expect(await cache.getEntry("k", fresh, () => "short")).toMatchObject({ status: "built", stored: true });
  });

  test("refuses to set a longer one, and to cap at what is no length or no codec", async () => {
    const { cache, client } = world().process({ options });
    const error = await lockError(cache.set("k", "x".repeat(100), fresh), "config");
    expect(error.message).toBe('Cannot store "k" as it is longer than maxLength');
    expect(client.sent).toEqual([]);
    expect(capped(textCodec, 0).maxLength).toBe(0);
    for (const length of [-1, Number.NaN, undefined]) {
      expect(() => capped(textCodec, length as number)).toThrow(
        /^Cannot use maxLength as it must be a number of 0 or more/,
      );
    }
    for (const codec of [null, "json", {}] as unknown[] as Codec[]) {
      expect(() => capped(codec, 5)).toThrow("Cannot use codec.decode");
      expect(() => deflated(codec)).toThrow("Cannot use codec.decode");
    }
  });

  test("holds for what is compressed, in whatever order", async () => {
    for (const codec of [
      capped(deflated(textCodec, { above: 0 }), 100),
      deflated(capped(textCodec, 100), { above: 0 }),
    ]) {
      const { cache } = world().process({ options: { codec } });
      expect(await cache.set("k", "x".repeat(1_000), fresh)).toBe(true);
      await lockError(cache.set("k", Array.from({ length: 300 }, (_, n) => n).join(), fresh), "config");
    }
  });

  test("takes a codec whose methods are those of a class", async () => {
    class Rot13 implements Codec {
      readonly name = "rot13";
      readonly #step = 13;
      encode(value: unknown): string {
        return this.decode(String(value));
      }
      decode(text: string): string {
        const turn = (letter: string) => String.fromCharCode(97 + ((letter.charCodeAt(0) - 97 + this.#step) % 26));
        return text.replace(/[a-z]/g, turn);
      }
    }
    for (const codec of [new Rot13(), capped(new Rot13(), 100), deflated(new Rot13(), { above: 0 })]) {
      const { cache } = world().process({ options: { codec } });
      await cache.set("k", "hello", fresh);
      expect(await cache.get("k", fresh, none)).toBe("hello");
    }
  });
});

describe("negativeMs", () => {
  const options = { ...fresh, staleMs: 60 * second, negativeMs: second };

  test("serves null for a time of its own, and not beyond", async () => {
    const { clock, process } = world();
    const { cache } = process();
    expect(await cache.getEntry("k", options, () => null)).toMatchObject({ value: null, stored: true });
    await clock.advance(second - 1);
    expect(await cache.getEntry("k", options, none)).toMatchObject({ value: null, status: "hit" });
    await clock.advance(1);
    expect(await cache.peek("k")).toBeUndefined();
    expect(await cache.getEntry("k", options, () => "there")).toMatchObject({ value: "there", status: "built" });
    await clock.advance(59 * second);
    expect(await cache.getEntry("k", options, none)).toMatchObject({ value: "there", status: "hit" });
  });

  test("is freshMs where it is not given", async () => {
    const { clock, process } = world();
    const { cache } = process();
    await cache.get("k", fresh, () => null);
    await clock.advance(59 * second);
    expect(await cache.get("k", fresh, none)).toBeNull();
  });
});
