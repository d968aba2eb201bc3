/**
 * What every observer must keep count of: a suite that each of them runs over the meters it is for, read back as the lines
 * that Prometheus would scrape.
 *
 * @module
 */
import { describe, expect, test } from "vitest";
import type { LabelOptions } from "../../adapters/measurements/labels.ts";
import type { Clock } from "../../src/clock.ts";
import { ReplyError } from "../../src/command.ts";
import type { LeaseholdEvent, Observer } from "../../src/events.ts";
import { world as caches } from "../cache/world.ts";
import { world as redlock } from "../redlock/world.ts";
import { type OneRedis, oneRedis } from "../support/one-redis.ts";
import { lockError } from "../support/rejection.ts";
import { lasting } from "../support/virtual-clock.ts";

/** An observer, and what it has kept: a number for each series, such as `leasehold_renewals_total{result="renewed"}`. */
export interface Kept {
  readonly observe: Observer;
  series(): Promise<Record<string, number>>;
}

/** Makes an observer over a real meter of its own. */
export type Keeping = (clock: Clock, options?: LabelOptions) => Kept;

const lost = { always: { lose: "request" } } as const;

export function observerContract(keeping: Keeping): void {
  /** A lock that is observed. */
  const observed = (
    settings: Parameters<typeof oneRedis>[0] = {},
    faults: Parameters<typeof oneRedis>[1] = {},
    options: LabelOptions = {},
  ): OneRedis & Kept => {
    let kept: Kept | undefined;
    const world = oneRedis({ observe: (event) => kept?.observe(event), ...settings }, faults);
    kept = keeping(world.clock, options);
    return { ...world, ...kept };
  };
  const results = async ({ series }: Kept, metric: string): Promise<Record<string, number>> => {
    const found = Object.entries(await series()).flatMap(([name, value]) => {
      const result = new RegExp(`^leasehold_${metric}\\{result="([^"]+)"\\}$`).exec(name)?.[1];
      return result && value ? [[result, value] as const] : [];
    });
    return Object.fromEntries(found);
  };

  describe("acquisitions", () => {
    test("are counted by result, with the wait for it", async () => {
      const world = observed();
      const holder = await world.other.acquire("job", { leaseMs: 60_000 });
      await lockError(world.lock.acquire("job", { waitMs: 0 }), "contended");
      expect(await world.lock.tryAcquire("job")).toBeNull();
      await lockError(world.clock.until(world.lock.acquire("job", { waitMs: 400 })), "timeout");
      await lockError(world.lock.acquire("job", { signal: AbortSignal.abort() }), "aborted");
      const waiting = world.lock.acquire("job");
      await world.clock.advance(2_000);
      await holder.release();
      await world.clock.until(waiting);

      expect(await results(world, "acquisitions_total")).toEqual({ contended: 2, timeout: 1, aborted: 1, acquired: 1 });
      const series = await world.series();
      expect(series['leasehold_wait_duration_seconds_count{result="acquired"}']).toBe(1);
      expect(series['leasehold_wait_duration_seconds_sum{result="acquired"}']).toBeGreaterThanOrEqual(2);
      expect(series['leasehold_wait_duration_seconds_sum{result="timeout"}']).toBeLessThanOrEqual(0.4);
    });

    test("without an answer are unavailable, and those that no try can mend are config", async () => {
      const silent = observed({ waitMs: 0 }, lost);
      await lockError(silent.clock.until(silent.lock.acquire("job")), "unavailable");
      expect(await results(silent, "acquisitions_total")).toEqual({ unavailable: 1 });
      const denied = observed({}, { acquire: [{ fail: new ReplyError("WRONGPASS") }] });
      await lockError(denied.lock.acquire("job"), "config");
      expect(await results(denied, "acquisitions_total")).toEqual({ config: 1 });
    });

    test("begin at 0, so that the first loss is seen as a rise", async () => {
      const series = await observed().series();
      for (const result of ["acquired", "timeout", "unavailable", "lost", "expired_mid_work"]) {
        expect(series[`leasehold_acquisitions_total{result="${result}"}`]).toBe(0);
      }
    });
  });

  describe("a hold", () => {
    test("is timed from the grant to the call of release, beside its lease and the part of it that was used", async () => {
      const world = observed({}, { release: [{ requestMs: 100, replyMs: 100 }] });
      const lease = await world.lock.acquire("job");
      const good = lease.remaining();
      await world.clock.advance(3_000);
      await world.clock.until(lease.release());

      const series = await world.series();
      expect(series['leasehold_hold_duration_seconds_sum{result="released"}']).toBe(3);
      expect(series.leasehold_lease_duration_seconds_sum).toBe(good / 1_000);
      expect(series.leasehold_lease_used_ratio_sum).toBeCloseTo(3_000 / good, 6);
      expect(series['leasehold_lease_used_ratio_bucket{le="0.3"}']).toBe(0);
      expect(series['leasehold_lease_used_ratio_bucket{le="0.4"}']).toBe(1);
      expect(series.leasehold_near_misses_total).toBe(0);
    });

    test("that is released with less than a fifth of its lease left is a near miss", async () => {
      const world = observed();
      const lease = await world.lock.acquire("job");
      await world.clock.advance(9_000);
      await lease.release();
      const series = await world.series();
      expect(series.leasehold_near_misses_total).toBe(1);
      expect(series['leasehold_lease_used_ratio_bucket{le="0.9"}']).toBe(0);
      expect(series['leasehold_lease_used_ratio_bucket{le="1"}']).toBe(1);
    });

    test("that is renewed in time uses half of its lease, however long it lasts", async () => {
      const world = observed();
      await world.clock.until(world.lock.withLock("job", () => lasting(world.clock, 110_000)));
      const series = await world.series();
      expect(series['leasehold_hold_duration_seconds_sum{result="released"}']).toBe(110);
      expect(series.leasehold_lease_used_ratio_count).toBe(1);
      expect(series.leasehold_lease_used_ratio_sum).toBeLessThan(0.55);
      expect((await results(world, "renewals_total")).renewed).toBeGreaterThan(20);
      expect(series.leasehold_long_holds_total).toBe(1);
      expect(series.leasehold_near_misses_total).toBe(0);
    });

    test("whose renewals go unanswered for long is a near miss, and its closest call is kept", async () => {
      const world: OneRedis & Kept = observed({}, (_, place) =>
        place > 0 && world.clock.monotonic < 9_500 ? { lose: "request" } : undefined,
      );
      await world.clock.until(world.lock.withLock("job", () => lasting(world.clock, 30_000)));
      const series = await world.series();
      expect((await results(world, "renewals_total")).unknown).toBeGreaterThan(1);
      expect(series.leasehold_near_misses_total).toBe(1);
      expect(series['leasehold_lease_used_ratio_bucket{le="0.8"}']).toBe(0);
      expect(series['leasehold_lease_used_ratio_bucket{le="1"}']).toBe(1);
      expect(await results(world, "hold_duration_seconds_count")).toEqual({ released: 1 });
    });

    test("that is prolonged by hand counts as extended", async () => {
      const world = observed();
      const lease = await world.lock.acquire("job");
      await world.clock.advance(1_000);
      await lease.extend(60_000);
      await world.clock.advance(30_000);
      await lease.release();
      expect(await results(world, "renewals_total")).toEqual({ extended: 1 });
      const series = await world.series();
      expect(series['leasehold_hold_duration_seconds_sum{result="released"}']).toBe(31);
      expect(series.leasehold_lease_used_ratio_sum).toBeCloseTo(0.5, 1);
    });

    test("whose lease ends first is expired in mid-work, once", async () => {
      const world = observed();
      const lease = await world.lock.acquire("job");
      await world.clock.advance(20_000);
      expect(await lease.release()).toBe("expired");
      expect(await results(world, "acquisitions_total")).toEqual({ acquired: 1, expired_mid_work: 1 });
      const series = await world.series();
      expect(series['leasehold_hold_duration_seconds_count{result="expired_mid_work"}']).toBe(1);
      expect(series['leasehold_lease_used_ratio_bucket{le="0.9"}']).toBe(0);
      expect(series.leasehold_lease_used_ratio_sum).toBeGreaterThanOrEqual(1);
    });

    test("that a frozen process ends late shows by how much", async () => {
      const world = observed();
      const lease = await world.lock.acquire("job");
      world.clock.freeze(30_000);
      expect(lease.remaining()).toBe(0);
      expect((await world.series()).leasehold_lease_used_ratio_sum).toBeGreaterThan(3);
    });

    test("whose place another has taken is lost, found by a renewal or by its release", async () => {
      const world = observed();
      const first = await world.lock.acquire("job");
      await world.run("DEL", first.key);
      const second = await world.other.acquire("job");
      expect(await first.release()).toBe("stolen");
      await second.release();
      const third = await world.lock.acquire("job");
      await world.run("DEL", third.key);
      await world.other.acquire("job");
      await lockError(third.extend(), "lost");
      expect(await results(world, "acquisitions_total")).toEqual({ acquired: 2, lost: 2 });
      expect(await results(world, "hold_duration_seconds_count")).toEqual({ lost: 2 });
    });

    test("that its holder has bounded ends at the bound", async () => {
      const { clock, lock, ...kept } = observed();
      const task = (): Promise<void> => lasting(clock, 60_000);
      await lockError(clock.until(lock.withLock("job", { maxHoldMs: 2_000 }, task)), "lost");
      expect(await results(kept, "acquisitions_total")).toEqual({ acquired: 1, max_hold: 1 });
      expect((await kept.series())['leasehold_hold_duration_seconds_sum{result="max_hold"}']).toBe(2);
    });

    test("whose release gets no answer is over all the same", async () => {
      const world = observed({}, { release: [{ lose: "request" }] });
      const lease = await world.lock.acquire("job");
      await world.clock.advance(1_000);
      await lockError(world.clock.until(lease.release()), "unavailable");
      await lease.release();
      expect(await results(world, "hold_duration_seconds_count")).toEqual({ release_failed: 1 });
      expect((await world.series())['leasehold_hold_duration_seconds_sum{result="release_failed"}']).toBeCloseTo(1, 3);
    });
  });

  test("each node's votes and round trips are told apart, and no vote counts twice", async () => {
    const kept: { now?: Kept } = {};
    const { lock, other, clock } = redlock(3, { observe: (event) => kept.now?.observe(event) }, ({ node }) =>
      node === 2 ? { lose: "request" } : { requestMs: 5 * (node + 1), replyMs: 5 * (node + 1) },
    );
    kept.now = keeping(clock);
    const lease = await clock.until(lock.acquire("job"));
    await clock.until(lease.release());
    const holder = await other.acquire("job");
    await lockError(clock.until(lock.acquire("job", { waitMs: 0 })), "contended");
    await holder.release();

    const series = await kept.now.series();
    const vote = (node: string, result: string): number | undefined =>
      series[`leasehold_node_votes_total{node="${node}",result="${result}"}`];
    expect([vote("node 1", "granted"), vote("node 2", "granted"), vote("node 3", "granted")]).toEqual([
      1,
      1,
      undefined,
    ]);
    expect([vote("node 1", "held"), vote("node 2", "held")]).toEqual([1, 1]);
    expect(vote("node 3", "unknown")).toBeGreaterThan(0);
    const trips = (node: string, part: string): number | undefined =>
      series[`leasehold_node_round_trip_duration_seconds_${part}{node="${node}"}`];
    expect(Number(trips("node 2", "sum")) / Number(trips("node 2", "count"))).toBeCloseTo(0.02, 6);
    expect(trips("node 3", "count")).toBeUndefined();
  });

  test("a cache's hits, builds and refused commits are counted, and a shared read has one vote", async () => {
    let kept: Kept | undefined;
    const { process, clock, slow, pass } = caches();
    const { cache } = process({ options: { observe: (event) => kept?.observe(event) } });
    kept = keeping(clock);
    const options = { freshMs: 60_000 };
    await cache.get("a", options, () => 1);
    await Promise.all([1, 2, 3].map(() => cache.get("a", options, () => 1)));
    await cache.get("b", options, () => Promise.reject(new Error("no"))).catch(() => {});
    const late = cache.get("c", options, slow(500, 1));
    await clock.advance(100);
    await cache.invalidate("c");
    await clock.until(Promise.all([late, pass(1_000)]));

    expect(await results(kept, "cache_hits_total")).toEqual({ fresh: 3 });
    expect(await results(kept, "cache_builds_total")).toEqual({ stored: 1, failed: 1, unstored: 1 });
    expect(await results(kept, "cache_refused_commits_total")).toEqual({ invalidated: 1 });
    const series = await kept.series();
    expect(series['leasehold_node_votes_total{node="memory",result="hit"}']).toBe(1);
    expect(series['leasehold_node_votes_total{node="memory",result="won"}']).toBe(3);
    // The invalidation itself, and the commit that it refused, of which two events tell.
    expect(series['leasehold_node_votes_total{node="memory",result="invalidated"}']).toBe(2);
  });

  describe("a name", () => {
    test("is in no series unless it is asked for", async () => {
      const world = observed();
      await world.lock.withLock("customer:secret", async () => {});
      const names = Object.keys(await world.series());
      expect(names.length).toBeGreaterThan(10);
      expect(names.filter((name) => /secret|name=/.test(name))).toEqual([]);
    });

    test("is a label as the caller maps it, up to so many values", async () => {
      const world = observed({}, {}, { label: (name) => name.split(":")[0] ?? name, maxLabels: 2 });
      for (const name of ["order:1", "order:2", "user:1", "page:1", "file:1"])
        await world.lock.withLock(name, () => {});
      const series = await world.series();
      const acquired = (name: string): number | undefined =>
        series[`leasehold_acquisitions_total{name="${name}",result="acquired"}`];
      expect([acquired("order"), acquired("user"), acquired("other"), acquired("page")]).toEqual([2, 1, 2, undefined]);
      expect(series['leasehold_acquisitions_total{name="user",result="lost"}']).toBe(0);
    });

    test.for<[string, (name: string) => unknown]>([
      ["throws", (name) => Reflect.get(Object(undefined), name).length],
      ["gives no text", () => ({})],
    ])("that a mapping which %s cannot map is another", async ([, label]) => {
      const world = observed({}, {}, { label: label as (name: string) => string });
      await world.lock.withLock("job", () => {});
      expect((await world.series())['leasehold_acquisitions_total{name="other",result="acquired"}']).toBe(1);
    });

    test("is cut to 100 characters, between two of them", async () => {
      const world = observed({}, {}, { label: (name) => name });
      await world.lock.withLock(`a${"😀".repeat(200)}`, () => {});
      expect((await world.series())[`leasehold_acquisitions_total{name="a${"😀".repeat(99)}",result="acquired"}`]).toBe(
        1,
      );
    });
  });

  test("100 nodes are told apart, and no more", async () => {
    const { observe, series } = keeping(oneRedis().clock);
    for (let node = 0; node < 300; node += 1) observe(contended(`node ${node}`));
    const nodes = new Set(Object.keys(await series()).flatMap((name) => /node="([^"]+)"/.exec(name)?.[1] ?? []));
    expect(nodes.size).toBe(101);
    expect((await series())['leasehold_node_votes_total{node="other",result="held"}']).toBe(200);
  });

  test("clocks that ran backwards leave nothing that is not a number", async () => {
    const world = observed();
    const lease = await world.lock.acquire("job");
    world.clock.monotonic -= 500;
    world.clock.wall -= 500;
    await lease.release().catch(() => {});
    for (const [name, value] of Object.entries(await world.series())) {
      expect({ name, fine: Number.isFinite(value) && value >= 0 }).toEqual({ name, fine: true });
    }
  });
}

function contended(label: string): LeaseholdEvent {
  const nodes = [{ label, outcome: "held", ms: 1 }];
  return { type: "contended", name: "job", retryAfterMs: 1, durationMs: 1, requests: 1, nodes };
}
