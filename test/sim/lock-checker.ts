/**
 * Watches locks, and knows little of how they work: who believes to hold which lease, what the nodes really hold, and
 * what has been promised.
 *
 *   I0   nothing is thrown but what a lock may throw, and nothing is thrown that nobody hears
 *   I1   no two believe to hold at once                        I2   nobody acts after a later holder has acted
 *   I3   a quorum of nodes keeps a lease for as long as its holder believes in it
 *   I4   a fence is larger than all that were given out before
 *   I5   a resource that checks fences never goes back to a holder of the past, and refuses nobody else
 *   I6   a token that was let go of is never granted again     I7   a lease is never shortened, nor longer than asked
 *   I8   a token ends by its time or its own release, and nobody else's key is touched
 *   I9   what may have been granted and is not held is let go of, on all nodes, and soon; a lease has an end
 *   I10  work gets done                                        I11  a call costs the requests that it should
 *   I12  a deadline only moves by a definite reply             I13  the signal of a lease that is over has aborted
 *   I14  a release tells what has become of the lease          I15  nothing is held after its release
 *   I16  every call ends, and in time                          I17  an extend that succeeded is kept by a quorum
 *   I18  who is told that another holds it was told so by a node
 *
 * I3 and I6 to I8 look into the nodes: they find a mistake long before it shows.
 */
import { elapsedMs, type Stamp } from "../../src/clock.ts";
import type { Reply } from "../../src/command.ts";
import type { Lease } from "../../src/lease.ts";
import type { ReleaseOutcome } from "../../src/release.ts";
import type { Message, Witness } from "./network.ts";
import { anotherType, type SimNode } from "./node.ts";
import type { Process } from "./process.ts";
import type { Timeline } from "./timeline.ts";
import type { Report } from "./violation.ts";

/** What this world can promise. */
export interface Promises {
  /** No two holders at once: no server's clock steps, and no more nodes forget than the quorum allows for. */
  readonly exclusion: boolean;
  readonly quorum: number;
  /** So many nodes of each quorum may lose a lease. */
  readonly fickleNodes: number;
  /** Whether a token can be granted twice by one node: a token of a single Redis serves all tries of a call. */
  readonly grantsOnce: boolean;
}

/** A lease and what its process has seen of it. */
export interface Held {
  readonly lease: Lease;
  readonly process: Process;
  /** The signal itself, where this holder takes it at once: asking the lease for it makes it look at the clock. */
  readonly signal: AbortSignal | undefined;
  readonly calledAt: number;
  readonly returnedAt: number;
  /** Until when, in true time, its last look lets it act. */
  trustedUntil: number;
  lastLook: { readonly at: Stamp; readonly remainingMs: number } | undefined;
  /** It may end early: let go of, or a node has said that it does not keep it. */
  mayEnd: boolean;
  isReleased: boolean;
  /** It was held when its release was first called. */
  wasHeld: boolean;
  /** The longest lease that was asked for. */
  mostMs: number;
  /** Nodes that have told its process that they do not keep it. */
  readonly deniedBy: Set<SimNode>;
}

/** One request to release, and what it did on its node. */
interface Released {
  readonly message: Message;
  /** Some acquire of the token was not definitely answered there when it was sent: a copy may still be on its way. */
  readonly isUncertain: boolean;
  runs: number;
  deleted: boolean;
}

/** A lock's key, as it stands on a node. */
interface Standing {
  readonly token: string;
  readonly since: number;
  readonly until: number;
}

interface Grants {
  /** Tokens that a release or a roll-back has run for, which no later copy may bring back. */
  readonly closed: Set<string>;
  readonly granted: Set<string>;
}

export class LockChecker implements Witness {
  readonly #timeline: Timeline;
  readonly #nodes: readonly SimNode[];
  readonly #promises: Promises;
  readonly #report: Report;
  /** Fences, and when they were given out. */
  readonly #returned: { readonly fence: number; readonly at: number }[] = [];
  /** Leases whose holders may still believe in them. */
  readonly #trusting = new Set<Held>();
  readonly #byToken = new Map<string, Held>();
  readonly #grants = new Map<SimNode, Grants>();
  readonly #acquires = new Map<string, Message[]>();
  /** By token. */
  readonly #releases = new Map<string, Released[]>();
  /** When a token was first let go of. */
  readonly #doneAt = new Map<string, number>();
  readonly #standing = new Map<SimNode, Standing>();
  readonly #outcomes: { readonly held: Held; readonly outcome: ReleaseOutcome }[] = [];
  /** When a node last refused a process. */
  readonly #refusedAt = new Map<Process, number>();
  /** Acquires that have found another's token, or none that they could have, on their node. */
  readonly #refused = new WeakSet<Message>();
  #before: { holder: string | undefined; expiresAt: number; leftMs: number } | undefined;
  #highestActed = 0;
  progress = 0;
  /** Times at which two held at once, or one acted after a later holder: a violation where exclusion is promised. */
  overlaps = 0;
  /** I9: how long keys stood on nodes after they were first rolled back. */
  orphanMs = 0;

  constructor(timeline: Timeline, nodes: readonly SimNode[], promises: Promises, report: Report) {
    this.#timeline = timeline;
    this.#nodes = nodes;
    this.#promises = promises;
    this.#report = report;
    for (const node of nodes) this.#grants.set(node, { closed: new Set(), granted: new Set() });
  }

  /** An acquire has returned a lease. */
  acquired(lease: Lease, process: Process, calledAt: number, leaseMs: number): Held {
    const { fence, token } = lease;
    this.progress += 1;
    // Every earlier holder is over by now, so its fence is lower; without exclusion only that of who was over before
    // this one asked for the first time.
    for (const { fence: other, at } of this.#returned) {
      if (other === fence) this.#report("I4", `fence ${fence} was given twice`);
      if (other > fence && (this.#promises.exclusion || at < calledAt)) {
        this.#report("I4", `fence ${fence} came after ${other}`);
      }
    }
    if (!Number.isSafeInteger(fence) || fence <= 0) this.#report("I4", `fence ${fence} is none`);
    this.#returned.push({ fence, at: this.#timeline.now });
    const held: Held = {
      lease,
      process,
      signal: /[0-7]$/.test(token) ? lease.signal : undefined,
      calledAt,
      returnedAt: this.#timeline.now,
      trustedUntil: -Infinity,
      lastLook: undefined,
      mayEnd: false,
      isReleased: false,
      wasHeld: false,
      mostMs: leaseMs,
      deniedBy: new Set(),
    };
    this.#byToken.set(token, held);
    return held;
  }

  /** A holder looks whether it may act, and does so if it may. Returns what is left. */
  look(held: Held): number {
    const { lease, process } = held;
    const now = this.#timeline.now;
    const remainingMs = lease.remaining();
    this.#keepsPace(held, remainingMs);
    if (remainingMs <= 0) {
      held.trustedUntil = Math.min(held.trustedUntil, now);
      if (!held.isReleased && !lease.signal.aborted) this.#report("I13", `${process.name} is over, its signal is not`);
      return 0;
    }
    if (remainingMs > held.mostMs) {
      this.#report("I7", `${process.name} believes for ${remainingMs} ms, and has asked for ${held.mostMs}`);
    }
    if (held.deniedBy.size > this.#nodes.length - this.#promises.quorum) {
      this.#report("I13", `${process.name} goes on, though ${held.deniedBy.size} nodes have denied its lease`);
    }
    if (held.isReleased) this.#report("I15", `${process.name} has released, and still has ${remainingMs} ms`);
    const trustedMs = remainingMs / process.rate;
    held.trustedUntil = now + trustedMs;
    if (this.#promises.exclusion) this.#isKept(held, trustedMs);
    this.#excludes(held);
    return remainingMs;
  }

  /** A holder is about to extend. Returns what checks that a quorum has done so. */
  extending(held: Held, leaseMs: number): () => void {
    const calledAt = this.#timeline.now;
    held.mostMs = Math.max(held.mostMs, leaseMs);
    return () => {
      const leastMs = leaseMs / 1.005 - (this.#timeline.now - calledAt);
      const keptMs = this.#keptMs(held.lease);
      if (this.#promises.exclusion && keptMs < leastMs)
        this.#report("I17", `${held.process.name} was extended, and a quorum keeps ${keptMs.toFixed(1)} ms`);
    };
  }

  /** A call that was made then was refused, as another holds the lock. */
  refused(process: Process, calledAt: number): void {
    const refusedAt = this.#refusedAt.get(process) ?? -Infinity;
    if (refusedAt < calledAt) this.#report("I18", `${process.name} was told that another holds it, by no node`);
  }

  /** A holder is about to let go. Returns what checks the outcome. */
  releasing(held: Held): (outcome: ReleaseOutcome) => void {
    if (!held.isReleased) held.wasHeld = this.look(held) > 0;
    held.mayEnd = true;
    held.trustedUntil = Math.min(held.trustedUntil, this.#timeline.now);
    return (outcome) => this.#outcomes.push({ held, outcome });
  }

  /** The run is over. I9: what is let go of is let go of everywhere. I14: every holder was told what became of its lease. */
  end(): void {
    const { quorum } = this.#promises;
    for (const node of this.#standing.keys()) this.#falls(node);
    for (const [token, releases] of this.#releases) {
      const asked = new Set(releases.map(({ message }) => message.node)).size;
      if (asked < this.#nodes.length) this.#report("I9", `${short(token)} was let go of on ${asked} nodes only`);
    }
    for (const [node, { granted }] of this.#grants) {
      // Of a request that was answered, a second copy is nothing that its sender can know of.
      const isOrphan = (token: string): boolean =>
        !this.#byToken.has(token) && !this.#releases.has(token) && this.#isUncertain(token, node);
      const orphan = [...granted].find(isOrphan);
      if (orphan !== undefined)
        this.#report("I9", `${short(orphan)} was granted on ${node.label}, and nobody has let go`);
    }
    for (const { lease, signal, process, wasHeld } of this.#byToken.values()) {
      const isOver = lease.remaining() === 0;
      if (wasHeld && (!isOver || (signal ?? lease.signal).aborted))
        this.#report("I15", `${process.name} let go in time, and was told so`);
    }
    for (const { held, outcome } of this.#outcomes) {
      const releases = this.#releases.get(held.lease.token) ?? [];
      const deletions = new Set(releases.filter(({ deleted }) => deleted).map(({ message }) => message.node));
      // Where one request ran twice below the client, its reply may be that of the second. Silence is made up for by the
      // answer to a later try, whatever it is.
      const isAnswered = ({ node, sentAt }: Message): boolean =>
        releases.some(({ message: m }) => m.node === node && m.sentAt >= sentAt && m.state === "definite");
      const clean = releases.filter(({ deleted, runs, message }) => deleted && runs === 1 && isAnswered(message));
      const unanswered = releases.some(({ message }) => message.state !== "definite");
      const told = `${held.process.name} was told "${outcome}" where ${deletions.size} nodes had deleted its token`;
      if (outcome === "released" && deletions.size < quorum && !unanswered) this.#report("I14", told);
      if ((outcome === "expired" || outcome === "stolen") && held.wasHeld && clean.length >= quorum) {
        this.#report("I14", told);
      }
    }
  }

  /** The call to `release` has been made. */
  released(held: Held): void {
    held.isReleased = true;
    this.look(held);
  }

  sent(message: Message): void {
    const { call, node } = message;
    const releases = this.#releases.get(call.token) ?? [];
    if (call.verb === "acquire") {
      this.#acquires.set(call.token, [...(this.#acquires.get(call.token) ?? []), message]);
      const [, , proposal = 1] = call.args;
      if (!Number.isSafeInteger(Number(proposal))) this.#report("I4", `${message.process.name} proposes ${proposal}`);
    }
    if (call.verb === "release") {
      const isUncertain = this.#isUncertain(call.token, node);
      const release: Released = { message, isUncertain, runs: 0, deleted: false };
      this.#releases.set(call.token, [...releases, release]);
      if (!this.#doneAt.has(call.token)) this.#doneAt.set(call.token, this.#timeline.now);
    }
  }

  /** Some acquire of this token was sent to this node, and not definitely answered so far. */
  #isUncertain(token: string, node: SimNode): boolean {
    const acquires = this.#acquires.get(token) ?? [];
    return acquires.some((acquire) => acquire.node === node && acquire.state !== "definite");
  }

  before(node: SimNode, { call: { key } }: Message): void {
    this.#before = { holder: node.holder(key), expiresAt: node.expiresAt(key), leftMs: node.leftMs(key) };
  }

  after(node: SimNode, message: Message): void {
    const { verb, key, token, args } = message.call;
    const grants = this.#grants.get(node);
    if (grants === undefined || this.#before === undefined) return;
    const { holder: was, expiresAt: until, leftMs } = this.#before;
    const is = node.holder(key);
    this.#stands(node, is, key);
    if (verb === "acquire" && is !== token) this.#refused.add(message);
    const told = (what: string): string => `${what} on ${node.label}, by ${verb} of ${short(token)}`;
    if (is !== undefined && is === was) {
      if (node.expiresAt(key) < until) this.#report("I7", told("a lease was shortened"));
    } else if (was !== undefined && !(verb === "release" && token === was && is === undefined)) {
      this.#report("I8", told(`${short(was)} was ${is === undefined ? "deleted" : "replaced"}`));
    } else if (is !== undefined) {
      if (verb !== "acquire" || is !== token) this.#report("I8", told(`${short(is)} was brought back`));
      if (grants.closed.has(is)) this.#report("I6", told("a token was granted after its release"));
      if (this.#promises.grantsOnce && grants.granted.has(is)) this.#report("I8", told("a token was granted twice"));
      grants.granted.add(is);
    }
    // A key lives through the ms in which it expires, by a clock that may be slow.
    const mostMs = Math.max(leftMs, verb === "release" ? 0 : 1.005 * Number(args[1]) + 2);
    if (is !== undefined && is !== anotherType && node.leftMs(key) > mostMs) {
      this.#report("I7", told("a lease was given more than was asked for"));
    }
    if (verb === "release") this.#releaseRan(node, message, was === token, is === token, grants);
  }

  #stands(node: SimNode, token: string | undefined, key: string): void {
    const now = this.#timeline.now;
    if (this.#standing.get(node)?.token !== token) this.#falls(node);
    if (token === undefined) return;
    const { since } = this.#standing.get(node) ?? { since: now };
    this.#standing.set(node, { token, since, until: now + node.leftMs(key) });
  }

  /** By now, or before, as its time was up. */
  #falls(node: SimNode): void {
    const stood = this.#standing.get(node);
    this.#standing.delete(node);
    const doneAt = this.#doneAt.get(stood?.token ?? "");
    if (stood === undefined || doneAt === undefined || this.#byToken.has(stood.token)) return;
    const until = Math.min(this.#timeline.now, stood.until);
    this.orphanMs += Math.max(0, until - Math.max(stood.since, doneAt));
  }

  #releaseRan(node: SimNode, message: Message, wasThere: boolean, isThere: boolean, { closed }: Grants): void {
    const { token } = message.call;
    const release = this.#releases.get(token)?.find((one) => one.message === message);
    if (release === undefined) return;
    release.runs += 1;
    release.deleted ||= wasThere && !isThere;
    if (isThere) this.#report("I9", `${short(token)} is still on ${node.label} after its release`);
    if (release.isUncertain && !node.isFull) closed.add(token);
  }

  answered(message: Message, reply: Reply): void {
    const { call, process, node } = message;
    if (!Array.isArray(reply) || reply[0] === 1) return;
    if (call.verb === "acquire") {
      this.#refusedAt.set(process, this.#timeline.now);
      if (!this.#refused.has(message)) this.#report("I18", `${process.name} was refused what it has`);
    }
    const held = this.#byToken.get(call.token);
    if (call.verb !== "extend" || held?.process !== process) return;
    held.mayEnd = true;
    held.deniedBy.add(node);
  }

  /** A node has lost its data, and with it what it had closed. */
  forgot(node: SimNode): void {
    this.#grants.set(node, { closed: new Set(), granted: new Set() });
    this.#falls(node);
  }

  /** I12: only a definite reply moves a deadline; towards the past none does, but "not yours". */
  #keepsPace(held: Held, remainingMs: number): void {
    const at = held.process.clock.now();
    const { lastLook } = held;
    held.lastLook = { at, remainingMs };
    if (lastLook === undefined || held.mayEnd || held.isReleased) return;
    const least = lastLook.remainingMs - elapsedMs(lastLook.at, at) - 2;
    if (remainingMs < Math.floor(least)) {
      this.#report("I12", `${held.process.name} has ${remainingMs} ms where ${Math.ceil(least)} were left`);
    }
  }

  /** I3: a quorum keeps the lease for as long as its holder believes. */
  #isKept({ lease, process }: Held, trustedMs: number): void {
    const left = this.#keptMs(lease);
    if (left >= trustedMs) return;
    this.#report("I3", `${process.name} trusts in ${trustedMs.toFixed(1)} ms, a quorum keeps ${left.toFixed(1)}`);
  }

  /** How long a quorum keeps a lease, less what may be lost of it; for ever where any node may forget. */
  #keptMs({ key, token }: Lease): number {
    const kept = this.#nodes.map((node) => (node.holder(key) === token ? node.leftMs(key) : 0));
    const { quorum, fickleNodes } = this.#promises;
    return kept.sort((a, b) => b - a)[quorum - fickleNodes - 1] ?? Infinity;
  }

  /** I1: nobody else believes; I2: nobody acts after a later holder has. */
  #excludes(held: Held): void {
    const now = this.#timeline.now;
    const { fence } = held.lease;
    let other: Held | undefined;
    for (const one of this.#trusting) {
      if (one.isReleased || one.trustedUntil <= now) this.#trusting.delete(one);
      else if (one !== held) other = one;
    }
    this.#trusting.add(held);
    const later = this.#highestActed > fence;
    this.#highestActed = Math.max(this.#highestActed, fence);
    if (other === undefined && !later) return;
    this.overlaps += 1;
    if (!this.#promises.exclusion) return;
    if (other !== undefined) this.#report("I1", `${held.process.name} and ${other.process.name} believe to hold`);
    if (later) this.#report("I2", `${held.process.name} acted with fence ${fence}, after ${this.#highestActed}`);
  }
}

function short(token: string): string {
  return token.slice(0, 6);
}
