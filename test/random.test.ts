import { afterEach, describe, expect, test, vi } from "vitest";
import { chance, hex, newToken, systemRandom } from "../src/random.ts";
import { seededRandom } from "./support/virtual-clock.ts";

afterEach(() => vi.unstubAllGlobals());

describe("newToken()", () => {
  test("needs nothing but getRandomValues, and makes 10 000 distinct tokens of a letter and 128 bits", () => {
    const { crypto } = globalThis;
    vi.stubGlobal("crypto", { getRandomValues: (bytes: Uint8Array<ArrayBuffer>) => crypto.getRandomValues(bytes) });
    const tokens = Array.from({ length: 10_000 }, () => newToken(systemRandom));
    expect(new Set(tokens).size).toBe(10_000);
    for (const token of tokens) expect(token).toMatch(/^t[0-9a-f]{32}$/);
  });

  test("uses every bit: none is the same in a thousand tokens", () => {
    const bits = Array.from({ length: 1_000 }, () => BigInt(`0x${newToken(systemRandom).slice(1)}`));
    const all = 2n ** 128n - 1n;
    expect(bits.reduce((a, b) => a | b)).toBe(all);
    expect(bits.reduce((a, b) => a & b)).toBe(0n);
  });

  test.for([undefined, {}])("refuses to make one where crypto is %j, and never falls back to Math.random", (crypto) => {
    vi.stubGlobal("crypto", crypto);
    const random = vi.spyOn(Math, "random");
    expect(() => newToken(systemRandom)).toThrow(expect.objectContaining({ name: "LockError", code: "config" }));
    expect(random).not.toHaveBeenCalled();
    random.mockRestore();
  });
});

describe("chance()", () => {
  test("stays from 0 up to, not including, 1", () => {
    const all = (byte: number) => ({ fill: (bytes: Uint8Array<ArrayBuffer>) => bytes.fill(byte) });
    expect(chance(all(0))).toBe(0);
    expect(chance(all(255))).toBeLessThan(1);
    expect(chance(all(255))).toBeCloseTo(1, 6);
    expect(chance(all(128))).toBeCloseTo(0.5, 2);
  });

  test("spreads evenly over its range", () => {
    const random = seededRandom(7);
    const buckets = Array.from({ length: 10 }, () => 0);
    for (let i = 0; i < 10_000; i += 1) {
      const bucket = Math.floor(chance(random) * 10);
      buckets[bucket] = (buckets[bucket] ?? 0) + 1;
    }
    for (const count of buckets) expect(Math.abs(count - 1_000)).toBeLessThan(150);
  });
});

test("hex() gives two digits a byte", () => {
  expect(hex(new Uint8Array([0, 1, 16, 255]))).toBe("000110ff");
});
