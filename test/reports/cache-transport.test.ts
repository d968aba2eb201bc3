/**
 * Public reports on Redis over HTTP, as far as a guarded cache answers for them: what its callers get, what is stored, and
 * how many requests it takes. Each test is named by the id of its report.
 */
import { describe, expect, test } from "vitest";
import { memoryClient } from "../../adapters/memory/index.ts";
import { type RestResponse, restClient } from "../../adapters/rest.ts";
import { createCache } from "../../src/cache.ts";
import type { Command } from "../../src/command.ts";
import type { LockError } from "../../src/errors.ts";
import type { LeaseholdEvent } from "../../src/events.ts";
import { type Verb, verbOf } from "../cache/world.ts";
import { deaths, startDyingServer } from "../support/dying-sockets.ts";
import { answer, fetchDouble, gate, watched } from "../support/fetch-double.ts";
import { lockError } from "../support/rejection.ts";
import { settle, virtualEnvironment } from "../support/virtual-clock.ts";

const token = "rest-token-that-must-not-be-printed";
const value = "value-that-must-not-be-printed";
const settings = { url: "https://eu.example", token };
const fresh = { freshMs: 60_000 };

/** What a request comes to: the command itself runs when it is told to. */
type Fate = (run: () => Promise<RestResponse>, command: Command) => RestResponse | Promise<RestResponse>;

const lost: Fate = async (run) => {
  await run();
  throw new TypeError("fetch failed");
};
const hangs: Fate = async (run) => {
  await run();
  return new Promise(() => {});
};

/** A cache over a REST API, and one beside it that meets no fault. `fate` is asked by the script, and its place from 0. */
function overRest(fate: (verb: Verb, place: number) => Fate | undefined = () => undefined) {
  const env = virtualEnvironment();
  const redis = memoryClient({}, env);
  const sent: Command[] = [];
  const places = new Map<Verb, number>();
  const { fetch, calls } = fetchDouble(async ({ body }) => {
    const command: Command = JSON.parse(body);
    sent.push(command);
    const verb = verbOf(command);
    const place = places.get(verb) ?? 0;
    places.set(verb, place + 1);
    const run = async (): Promise<RestResponse> => answer(200, { result: await redis.execute(command) });
    return (fate(verb, place) ?? run)(run, command);
  });
  const events: LeaseholdEvent[] = [];
  const client = restClient({ ...settings, fetch });
  const cache = createCache(client, { observe: (event) => void events.push(event) }, env);
  /** Fails where anything that is told holds what must not be printed. */
  const expectNoSecret = (...told: unknown[]): void => {
    const elections = sent.map(([, , , , id]) => String(id)).filter((id) => id.length > 16);
    const causes = told.map((error) => Object(error).cause);
    const printed = [...told, ...causes].map((error) => `${error}`).join() + JSON.stringify([told, causes, events]);
    for (const text of [token, value, ...elections]) expect(printed).not.toContain(text);
  };
  return { clock: env.clock, cache, beside: createCache(redis, {}, env), sent, calls, events, expectNoSecret };
}

const verbsOf = (sent: readonly Command[]): Verb[] => sent.map(verbOf);

/** A build that counts its calls. */
function counted<T>(built: T): (() => T) & { calls: number } {
  const build = Object.assign(
    () => {
      build.calls += 1;
      return built;
    },
    { calls: 0 },
  );
  return build;
}

describe("answers that are none", () => {
  const error = (text: string) => ({ error: text });
  const page = `<html>Bad gateway for Bearer ${token}`;
  const limited = { "retry-after": "2" };

  interface Odd {
    readonly title: string;
    readonly status: number;
    readonly body: unknown;
    readonly headers?: Record<string, string>;
    /** The requests of a call whose every answer is this one. */
    readonly asks: 1 | 2;
    /** Those of a build whose value is answered so: the election, the value, and that it is not to be waited for. */
    readonly builds: 2 | 3;
    readonly code?: "config";
    readonly cause?: string;
    readonly retryAfterMs?: number;
  }

  const unknown = { asks: 2, builds: 3 } as const;
  const refused = { asks: 1, builds: 3 } as const;
  const final = { asks: 1, builds: 2 } as const;
  const denied = { ...final, code: "config" } as const;
  const later = { headers: limited, retryAfterMs: 2_000 } as const;
  const odd: readonly Odd[] = [
    {
      title: "F09 an error in a 200",
      status: 200,
      body: error("READONLY You can't write"),
      ...refused,
      cause: "READONLY",
    },
    { title: "F09 an error in a 400", status: 400, body: error("OOM command not allowed"), ...refused, cause: "OOM" },
    { title: "F09 a 200 without a result", status: 200, body: {}, ...unknown },
    { title: "F09 an empty 200", status: 200, body: "", ...unknown },
    { title: "F09 a 200 with an empty text", status: 200, body: '""', ...unknown },
    { title: "F09 a null", status: 200, body: { result: null }, ...unknown },
    { title: "F09 an OK", status: 200, body: { result: "OK" }, ...unknown },
    { title: "F09 a one", status: 200, body: { result: 1 }, ...unknown },
    { title: "F09 an empty list", status: 200, body: { result: [] }, ...unknown },
    { title: "F09 a hit that is cut off", status: 200, body: { result: ["hit", 'c["json",null]1', 1, 1] }, ...unknown },
    { title: "F09 a stored that is cut off", status: 200, body: { result: ["stored"] }, ...unknown },
    { title: "F10 a page of a 502", status: 502, body: page, ...unknown },
    { title: "F10 a text of a 530", status: 530, body: "error code: 1016", ...unknown },
    { title: "F10 an empty 504", status: 504, body: "", ...unknown },
    { title: "F10 a page of a 200", status: 200, body: page, ...unknown },
    { title: "F11 an abort that was made a result", status: 200, body: { result: "Aborted" }, ...unknown },
    {
      title: "F12 an unknown token",
      status: 401,
      body: error("WRONGPASS invalid token"),
      ...denied,
      cause: "WRONGPASS",
    },
    { title: "F12 the 401 of a proxy", status: 401, body: page, ...denied, cause: "WRONGPASS" },
    {
      title: "F12 a token that may only read",
      status: 400,
      body: error("NOPERM no 'eval'"),
      ...denied,
      cause: "NOPERM",
    },
    { title: "F13 a quota", status: 400, body: error("ERR max daily request limit exceeded"), ...final, cause: "ERR" },
    { title: "F13 a 429 of Redis", status: 429, body: error("ERR too many"), ...refused, ...later, cause: "ERR" },
    { title: "F13 a 429 of a proxy", status: 429, body: "Too Many Requests", ...final, ...later },
    { title: "F13 an empty 429", status: 429, body: "", ...final, ...later },
  ];
  const expectTold = ({ cause, retryAfterMs }: LockError, row: Odd): void =>
    expect({ cause: Object(cause).code, retryAfterMs }).toEqual({ cause: row.cause, retryAfterMs: row.retryAfterMs });
  const giving =
    ({ status, body, headers }: Odd): Fate =>
    (_, command) =>
      // A page may quote what it was sent.
      answer(status, body === page ? `${page}: ${command.slice(4).join(" ")}` : body, headers);

  test.for(odd)(
    "$title is no hit: a read builds without Redis, or rejects where the credentials are wrong",
    async (row) => {
      const { clock, cache, beside, sent, expectNoSecret } = overRest(() => giving(row));
      const build = counted(value);
      const read = clock.until(cache.getEntry("k", fresh, build));
      if (row.code) {
        const error = await lockError(read, row.code);
        expectTold(error, row);
        expectNoSecret(error);
      } else {
        const entry = { value, status: "built", stored: false, fence: 0, requests: row.asks };
        expect(await read).toEqual(entry);
        expectNoSecret();
      }
      expect(build.calls).toBe(row.code ? 0 : 1);
      expect(sent).toHaveLength(row.asks);
      expect(await beside.peek("k")).toBeUndefined();
    },
  );

  test.for(odd)('$title with onRedisDown "throw" is an error, and nothing is built', async (row) => {
    const { clock, cache, sent, expectNoSecret } = overRest(() => giving(row));
    const build = counted(value);
    const read = cache.get("k", { ...fresh, onRedisDown: "throw" }, build);
    const error = await lockError(clock.until(read), row.code ?? "unavailable");
    expectTold(error, row);
    expect(build.calls).toBe(0);
    expect(sent).toHaveLength(row.asks);
    expectNoSecret(error);
  });

  test.for(odd)(
    "$title to a value that was built does not make it a stored one, and its caller has it",
    async (row) => {
      const { clock, cache, beside, sent, events, expectNoSecret } = overRest((verb) =>
        verb === "commit" ? giving(row) : undefined,
      );
      const entry = await clock.until(cache.getEntry("k", fresh, () => value));
      expect(entry).toMatchObject({ value, status: "built", stored: false, requests: row.builds });
      expect(sent).toHaveLength(row.builds);
      expect(await beside.peek("k")).toBeUndefined();
      expect(events.find(({ type }) => type === "built")).toMatchObject({ stored: false });
      expectNoSecret();
    },
  );

  test.for(odd)("$title to a set, an invalidation or a peek rejects, and the old value stands", async (row) => {
    for (const [faulty, call] of [
      ["elect", "set"],
      ["commit", "set"],
      ["invalidate", "invalidate"],
      ["elect", "peek"],
    ] as const) {
      const { clock, cache, beside, sent, expectNoSecret } = overRest((verb) =>
        verb === faulty ? giving(row) : undefined,
      );
      await beside.set("k", "old", fresh);
      const calls: Record<typeof call, () => Promise<unknown>> = {
        set: () => cache.set("k", value, fresh),
        invalidate: () => cache.invalidate("k"),
        peek: () => cache.peek("k"),
      };
      const error = await lockError(clock.until(calls[call]()), row.code ?? "unavailable");
      expectTold(error, row);
      expect(verbsOf(sent).filter((verb) => verb === faulty)).toHaveLength(row.asks);
      expect(await beside.peek("k")).toMatchObject({ value: "old" });
      expectNoSecret(error);
    }
  });

  const tooMany: Fate = () => answer(429, "Too Many Requests", limited);

  test("F13 a read after a 429 asks again at once, with one request, and is served as soon as it may be", async () => {
    let isLimited = true;
    const { cache, beside, sent } = overRest(() => (isLimited ? tooMany : undefined));
    await beside.set("k", "stored", fresh);
    const build = counted("built");
    for (const requests of [1, 2, 3]) {
      expect(await cache.getEntry("k", fresh, build)).toMatchObject({ value: "built", stored: false, requests: 1 });
      expect(sent).toHaveLength(requests);
    }
    isLimited = false;
    expect(await cache.getEntry("k", fresh, build)).toMatchObject({ value: "stored", status: "hit", requests: 1 });
    expect(build.calls).toBe(3);
  });

  test("F13 a 429 to a reader that waits for another's build ends its wait: it builds without Redis", async () => {
    const { clock, cache, beside, sent } = overRest((_, place) => (place > 0 ? tooMany : undefined));
    const theirs = gate<string>();
    const reading = beside.getEntry("k", fresh, () => theirs.promise);
    await settle();
    const entry = await clock.until(cache.getEntry("k", fresh, () => "own"));
    expect(entry).toMatchObject({ value: "own", status: "built", stored: false, requests: 2 });
    expect(verbsOf(sent)).toEqual(["elect", "elect"]);
    theirs.open("theirs");
    expect(await reading).toMatchObject({ value: "theirs", stored: true });
  });
});

describe("F12 settings that cannot be right", () => {
  test.for([
    ["url", { url: `rediss://default:${token}@eu.example:6379` }],
    ["url", { url: undefined }],
    ["token", { token: undefined }],
    ["token", { token: `${token} and more` }],
  ] as const)(
    "F12 a wrong %s is refused by every call, by name, and nothing is sent or built",
    async ([option, wrong]) => {
      const { fetch, calls } = fetchDouble(() => answer(200, { result: null }));
      const cache = createCache(restClient({ ...settings, ...wrong, fetch }), {}, virtualEnvironment());
      const build = counted(value);
      for (const call of [
        () => cache.get("k", fresh, build),
        () => cache.set("k", value, fresh),
        () => cache.invalidate("k"),
        () => cache.peek("k"),
      ]) {
        const { message } = await lockError(call(), "config");
        expect(message).toContain(`Cannot use ${option} as `);
        for (const text of [token, value]) expect(message).not.toContain(text);
      }
      expect(build.calls).toBe(0);
      expect(calls).toEqual([]);
    },
  );
});

describe("F03 a reply that is lost after the command has run", () => {
  test.for(["elect", "commit"] as const)("F03 to %s: the same is asked once more, and is done once", async (faulty) => {
    const { clock, cache, beside, sent, calls } = overRest((verb, place) =>
      verb === faulty && place === 0 ? lost : undefined,
    );
    const build = counted(value);
    const entry = await clock.until(cache.getEntry("k", fresh, build));
    expect(entry).toMatchObject({ value, status: "built", stored: true, requests: 3 });
    expect(build.calls).toBe(1);
    const place = verbsOf(sent).indexOf(faulty);
    expect(sent[place]).toEqual(sent[place + 1]);
    expect(new Set(calls.map(({ body }) => body)).size).toBe(3); // no cache between the two can answer one with the other
    expect(await beside.peek("k")).toMatchObject({ value, fence: entry.fence });

    expect(await clock.until(cache.set("k", "set", fresh))).toBe(true);
    expect(await beside.peek("k")).toMatchObject({ value: "set" });
  });

  test.for([
    ["elect", "set"],
    ["commit", "set"],
    ["invalidate", "invalidate"],
  ] as const)("F03 to %s: a call of %s says what was done", async ([faulty, call]) => {
    const { clock, cache, beside, sent } = overRest((verb, place) =>
      verb === faulty && place === 0 ? lost : undefined,
    );
    await beside.set("k", "old", fresh);
    if (call === "set") expect(await clock.until(cache.set("k", "new", fresh))).toBe(true);
    else await clock.until(cache.invalidate("k"));
    expect((await beside.peek("k"))?.value).toBe(call === "set" ? "new" : undefined);
    expect(sent).toHaveLength(call === "set" ? 3 : 2);
  });

  test("F03 to both copies of a value: it is not said to be stored, although it stands", async () => {
    const { clock, cache, beside, expectNoSecret } = overRest((verb) => (verb === "commit" ? lost : undefined));
    const entry = await clock.until(cache.getEntry("k", fresh, () => value));
    expect(entry).toMatchObject({ value, status: "built", stored: false, requests: 3 });
    expect(await beside.peek("k")).toMatchObject({ value });
    expectNoSecret(await lockError(clock.until(cache.set("k", value, fresh)), "unavailable"));
  });

  test("F03 to both copies of an invalidation: it rejects, although the value is gone, and so does the build", async () => {
    const { clock, cache, beside } = overRest((verb) => (verb === "invalidate" ? lost : undefined));
    await beside.set("k", "old", fresh);
    await lockError(clock.until(cache.invalidate("k")), "unavailable");
    expect(await beside.peek("k")).toBeUndefined();
    expect(await cache.getEntry("k", fresh, () => value)).toMatchObject({ value, status: "built", stored: true });
  });

  test.for([
    ["as they were sent", (held: (() => void)[]) => held],
    ["the other way round", (held: (() => void)[]) => held.reverse()],
  ] as const)("F03 a read and a set of one turn that arrive %s: what was set stands", async ([, order]) => {
    const held: (() => void)[] = [];
    const { clock, cache, beside } = overRest((verb, place) =>
      verb === "elect" && place < 2 ? (run) => new Promise((resolve) => held.push(() => resolve(run()))) : undefined,
    );
    const build = counted("built");
    const reading = cache.getEntry("k", fresh, build);
    const setting = cache.set("k", "set", fresh);
    await settle();
    expect(held).toHaveLength(2);
    for (const arrive of order(held)) arrive();
    const [entry, isSet] = await clock.until(Promise.all([reading, setting]));
    expect(isSet).toBe(true);
    expect(await beside.peek("k")).toMatchObject({ value: "set" });
    expect(entry.value).toBe(entry.stored ? "set" : "built");
  });
});

describe("F04 commands of one pipeline", () => {
  /** A client that sends pipelines, to a Redis that fails the commands it is told to. */
  function pipelined(fails: (command: Command) => boolean) {
    const env = virtualEnvironment();
    const redis = memoryClient({}, env);
    const one = async (command: Command): Promise<unknown> =>
      fails(command) ? { error: "READONLY You can't write" } : { result: await redis.execute(command) };
    const { fetch, calls } = fetchDouble(async ({ body }) =>
      answer(200, await Promise.all((JSON.parse(body) as Command[]).map(one))),
    );
    const client = restClient({ ...settings, batch: true, fetch });
    return { env, redis, client, cache: createCache(client, {}, env), calls };
  }

  test("F04 one of the caller's that fails leaves a read and a set alone", async () => {
    const { env, client, cache, calls } = pipelined(([verb]) => verb === "SET");
    const theirs = client.execute(["SET", "word", "value"]);
    const ours = Promise.all([cache.getEntry("a", fresh, () => 1), cache.set("b", 2, fresh)]);
    await expect(theirs).rejects.toMatchObject({ code: "READONLY" });
    expect(await env.clock.until(ours)).toMatchObject([{ value: 1, stored: true, requests: 2 }, true]);
    expect(calls).toHaveLength(2);
  });

  test("F04 a read of one key that fails leaves that of another and the caller's alone", async () => {
    const { env, redis, client, cache, calls } = pipelined(([, , , key]) => key === "cache:{a}");
    await redis.execute(["SET", "word", "theirs"]);
    const theirs = client.execute(["GET", "word"]);
    const ours = Promise.all(["a", "b"].map((key) => cache.getEntry(key, fresh, () => key)));
    expect(await env.clock.until(ours)).toMatchObject([
      { value: "a", stored: false, requests: 1 },
      { value: "b", stored: true, requests: 2 },
    ]);
    expect(await theirs).toBe("theirs");
    expect(calls).toHaveLength(2);
  });
});

describe("F11 requests that are aborted", () => {
  test("F11 one that ran and was never answered is given up, and the next has a signal of its own", async () => {
    const { clock, cache, calls } = overRest((_, place) => (place === 0 ? hangs : undefined));
    const began = clock.monotonic;
    const entry = await clock.until(cache.getEntry("k", fresh, () => 1));
    expect(entry).toMatchObject({ value: 1, status: "built", stored: true, requests: 4 });
    expect(clock.monotonic - began).toBe(2 * 2_500);
    expect(calls.map(({ signal }) => signal?.aborted)).toEqual([true, false, true, false]);
    expect(new Set(calls.map(({ signal }) => signal)).size).toBe(4);
  });

  test("F11 where none is answered a read builds without Redis, and the read after it is served again", async () => {
    let isDown = true;
    const { clock, cache, calls } = overRest(() => (isDown ? hangs : undefined));
    const build = counted(1);
    expect(await clock.until(cache.getEntry("k", fresh, build))).toMatchObject({
      status: "built",
      stored: false,
      requests: 2,
    });
    isDown = false;
    await clock.advance(10_000); // the lease of the election that nobody knows of
    expect(await clock.until(cache.getEntry("k", fresh, build))).toMatchObject({
      status: "built",
      stored: true,
      requests: 2,
    });
    expect(await cache.getEntry("k", fresh, build)).toMatchObject({ status: "hit", requests: 1 });
    expect(build.calls).toBe(2);
    expect(calls.map(({ signal }) => signal?.aborted)).toEqual([true, true, false, false, false]);
  });

  test("F11 a fetch that a signal of its own aborts is asked once more", async () => {
    const { clock, cache } = overRest((_, place) =>
      place === 0 ? () => Promise.reject(new DOMException("This operation was aborted", "AbortError")) : undefined,
    );
    expect(await clock.until(cache.getEntry("k", fresh, () => 1))).toMatchObject({
      value: 1,
      stored: true,
      requests: 4,
    });
  });

  test("F11 the caller's signal ends its read with no value, and the next read does not wait for its lease", async () => {
    const { clock, cache, sent } = overRest((verb, place) => (verb === "elect" && place === 0 ? hangs : undefined));
    const controller = new AbortController();
    const build = counted("first");
    const aborted = lockError(cache.get("k", { ...fresh, signal: controller.signal }, build), "aborted");
    await settle();
    controller.abort("enough");
    expect((await aborted).cause).toBe("enough");
    const began = clock.monotonic;
    const entry = await clock.until(cache.getEntry("k", fresh, () => "second"));
    expect(entry).toMatchObject({ value: "second", status: "built", stored: true });
    expect(clock.monotonic - began).toBeLessThanOrEqual(2_500 + 500); // its time-out, which gives the election up, and a look
    expect(build.calls).toBe(0);
    expect(verbsOf(sent)).toContain("tend");
  });
});

describe("F15 sockets that are dead when they are used", () => {
  test.for(deaths)("F15 fifty rounds of a cache succeed, each step once, although the server %s", async (death) => {
    await using parts = new AsyncDisposableStack();
    const server = await startDyingServer(death);
    parts.defer(server.stop);
    const cache = createCache(restClient(server), {}, virtualEnvironment()); // no time passes, so no time-out comes first
    let last = 0;
    for (let round = 0; round < 50; round += 1) {
      const build = counted(round);
      server.idle();
      const entry = await cache.getEntry("k", fresh, build);
      expect(entry).toMatchObject({ value: round, status: "built", stored: true });
      expect(entry.fence).toBeGreaterThan(last);
      last = entry.fence;
      server.idle();
      expect(await cache.getEntry("k", fresh, build)).toMatchObject({ value: round, status: "hit", fence: last });
      expect(build.calls).toBe(1);
      server.idle();
      expect(await cache.set("k", "set", fresh)).toBe(true);
      server.idle();
      expect(await cache.peek("k")).toMatchObject({ value: "set" });
      server.idle();
      await cache.invalidate("k");
    }
    expect(await cache.peek("k")).toBeUndefined();
  });
});

describe("F16 unread response bodies", () => {
  test.for([
    [200, ""],
    [200, '{"result":null}'],
    [400, '{"error":"OOM command not allowed"}'],
    [401, "<html>"],
    [429, "Too Many Requests"],
    [500, "<html>"],
  ] as const)(
    "F16 the body of every %i is read to its end by a read, a set and an invalidation: %s",
    async ([status, text]) => {
      const ends: Promise<string>[] = [];
      const { clock, cache, sent } = overRest(() => () => {
        const { response, ended } = watched(status, text);
        ends.push(ended);
        return response;
      });
      const calls = [cache.get("k", fresh, () => 1), cache.set("k", 1, fresh), cache.invalidate("k")];
      await clock.until(Promise.allSettled(calls));
      expect(sent.length).toBeGreaterThanOrEqual(3);
      expect(await Promise.all(ends)).toEqual(sent.map(() => "read"));
    },
  );

  test("F16 those that come after the time-out are read too, and nobody takes what is in them", async () => {
    const late = [gate<Response>(), gate<Response>()];
    const { clock, cache, beside } = overRest((_, place) => () => late[place]?.promise ?? answer(500, ""));
    await beside.set("k", "stored", fresh);
    expect(await clock.until(cache.getEntry("k", fresh, () => "built"))).toMatchObject({
      value: "built",
      stored: false,
    });
    const bodies = late.map(({ open }) => {
      const { response, ended } = watched(200, '{"result":["hit","c[\\"json\\",null]\\"late\\"",1,1,1,-1,0,0]}');
      open(response);
      return ended;
    });
    expect(await Promise.all(bodies)).toEqual(["read", "read"]);
    expect(await beside.peek("k")).toMatchObject({ value: "stored" });
  });
});
