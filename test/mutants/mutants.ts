/** Wrong locks and caches: each is the shipped code with one mistake, and says who must notice it. */
import type { Patch } from "./patch.ts";

export interface Mutant {
  /** What is wrong with it. */
  readonly mistake: string;
  readonly patches: readonly Patch[];
  /** The profile that shows it, and the invariants of which one must break. */
  readonly profile: string;
  readonly invariants: readonly string[];
}

/** M1, which must be seen on one node as on several. */
const countsFromReply: Mutant = {
  mistake: "the lease is counted from the reply",
  patches: [
    {
      file: "src/node.ts",
      find: "return { ...said, from: node, sentAt, ms",
      replace: "return { ...said, from: node, sentAt: clock.now(), ms",
    },
  ],
  profile: "greedy",
  invariants: ["I1", "I3"],
};

const mutants: Readonly<Record<string, Mutant>> = {
  M1: countsFromReply,
  M1b: { ...countsFromReply, profile: "greedy3" },
  M2: {
    mistake: "a release deletes whatever stands there",
    patches: [
      {
        file: "adapters/memory/lock-twins.ts",
        find: "if (mine) redis.delete(lock);",
        replace: "redis.delete(lock);",
      },
      {
        file: "src/scripts/release.ts",
        find: "local r = v == ARGV[1] and redis.call('DEL', KEYS[1]) or v and -1 or 0",
        replace: "local r = redis.call('DEL', KEYS[1])",
      },
    ],
    profile: "mixed",
    invariants: ["I8"],
  },
  M3: {
    mistake: "an acquire ignores that its token was rolled back",
    patches: [
      {
        file: "adapters/memory/lock-twins.ts",
        find: "if (redis.peek(tombstone) !== null) return [-1, counter, 0];",
        replace: "",
      },
      { file: "src/scripts/acquire.ts", find: "if m[3] then return { -1, c, 0 } end", replace: "" },
    ],
    profile: "mixed",
    invariants: ["I6"],
  },
  M3b: {
    mistake: "a roll-back writes no tombstone",
    patches: [
      {
        file: "src/release.ts",
        find: "tombstone ? tombstoneMs(leaseMs) : 0",
        replace: "0",
      },
    ],
    profile: "mixed",
    invariants: ["I6"],
  },
  M5: {
    mistake: "clocks are taken to run at the same rate",
    patches: [
      {
        file: "src/validity.ts",
        find: "Math.ceil(driftFactor * Math.max(leaseMs, remainingMs))",
        replace: "0",
      },
    ],
    profile: "drift",
    invariants: ["I1", "I3"],
  },
  M6: {
    mistake: "a token is used again after its roll-back",
    patches: [
      {
        file: "src/lock.ts",
        find: "cleaning = settle(context, rollBack(context, { ...wanted, token }));\n    token = newToken(env.random);",
        replace: "cleaning = settle(context, rollBack(context, { ...wanted, token }));",
      },
    ],
    profile: "short",
    invariants: ["I3", "I6", "I10"],
  },
  M7: {
    mistake: "an extend may shorten",
    patches: [
      {
        file: "adapters/memory/lock-twins.ts",
        find: "if (left < want) redis.expire(lock, want);\n  return [1, Math.max(left, want)];",
        replace: "redis.expire(lock, want);\n  return [1, want];",
      },
      {
        file: "src/scripts/extend.ts",
        find: "if p < want then redis.call('PEXPIRE', KEYS[1], ARGV[2]) end",
        replace: "redis.call('PEXPIRE', KEYS[1], ARGV[2])",
      },
    ],
    profile: "mixed",
    invariants: ["I7"],
  },
  M8: {
    mistake: "a try that finds its own grant counts a whole lease from its own send",
    patches: [
      {
        file: "src/lock.ts",
        find: "const holds: Hold[] = [{ ...reply, sentAt: answer.sentAt, leaseMs, uncertain }];",
        replace: "const holds: Hold[] = [{ remainingMs: leaseMs, sentAt: answer.sentAt, leaseMs, uncertain }];",
      },
    ],
    profile: "mixed",
    invariants: ["I1", "I3"],
  },
  M9: {
    mistake: "an extend brings an expired lease back",
    patches: [
      {
        file: "adapters/memory/lock-twins.ts",
        find: "if (redis.peek(lock) !== token) return",
        replace:
          "if (!redis.has(lock)) redis.set(lock, token, Number(leaseMs));\n  if (redis.peek(lock) !== token) return",
      },
      {
        file: "src/scripts/extend.ts",
        find: "if v ~= ARGV[1] then return",
        replace:
          "if not v then redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2]) v = ARGV[1] end\nif v ~= ARGV[1] then return",
      },
    ],
    profile: "mixed",
    invariants: ["I6", "I8"],
  },
  M12: {
    mistake: "elapsed time is what the monotonic clock says",
    patches: [
      {
        file: "src/clock.ts",
        find: "Math.max(now.monotonic - since.monotonic, now.wall - since.wall)",
        replace: "now.monotonic - since.monotonic",
      },
    ],
    profile: "mixed",
    invariants: ["I1", "I3", "I4"],
  },
  "wall-alone": {
    mistake: "elapsed time is what the wall clock says",
    patches: [
      {
        file: "src/clock.ts",
        find: "Math.max(now.monotonic - since.monotonic, now.wall - since.wall)",
        replace: "now.wall - since.wall",
      },
    ],
    profile: "mixed",
    invariants: ["I1", "I3", "I13"],
  },
  M15: {
    mistake: "silence is taken for success",
    patches: [
      {
        file: "src/lock.ts",
        find: "const { reply } = answer;",
        replace:
          'const reply = answer.reply ?? { type: "granted", fence: 1_000 * env.clock.now().wall, remainingMs: leaseMs };',
      },
    ],
    profile: "mixed",
    invariants: ["I1", "I3", "I4"],
  },
  M17: {
    mistake: "a fence is one more than the last, whatever the time",
    patches: [
      {
        file: "adapters/memory/lock-twins.ts",
        find: "let granted = Math.max(counter + 1, now);",
        replace: "let granted = counter + 1;",
      },
      {
        file: "src/scripts/acquire.ts",
        find: 'chooseFence = "local f = math.max(c + 1, now)"',
        replace: 'chooseFence = "local f = c + 1"',
      },
    ],
    profile: "amnesia",
    invariants: ["I4"],
  },
  "keeps-holding": {
    mistake: "a holder whose release has failed goes on holding",
    patches: [
      { file: "src/release.ts", find: 'holding.end("released");', replace: "" },
      {
        file: "src/release.ts",
        find: 'releasing = Promise.resolve("already-released");',
        replace: 'releasing = Promise.resolve("already-released");\n      holding.end("released");',
      },
    ],
    profile: "mixed",
    invariants: ["I15"],
  },
  "tombstone-first": {
    mistake: "a release writes its tombstone before it deletes, so that a full server strands the lock",
    patches: [
      {
        file: "adapters/memory/lock-twins.ts",
        find: "if (mine) redis.delete(lock);",
        replace:
          'if (tombstoneMs !== "0") redis.set(tombstone, "1", Number(tombstoneMs));\n' +
          '  if (tombstoneMs !== "0" && !redis.has(tombstone)) throw new Error("OOM");\n' +
          "  if (mine) redis.delete(lock);",
      },
      {
        file: "src/scripts/release.ts",
        find: "local v = redis.pcall('GET', KEYS[1])",
        replace:
          "if ARGV[2] ~= '0' then redis.call('SET', KEYS[2], '1', 'PX', ARGV[2]) end\nlocal v = redis.pcall('GET', KEYS[1])",
      },
    ],
    profile: "mixed",
    invariants: ["I9"],
  },
  "seven-days": {
    mistake: "a fence is remembered for seven days, however far ahead of the clock it is",
    patches: [
      {
        file: "adapters/memory/lock-twins.ts",
        find: "604_800_000 + Math.max(0, Math.ceil((granted - now) / 1_000))",
        replace: "604_800_000",
      },
      {
        file: "src/scripts/acquire.ts",
        find: "604800000 + math.max(0, math.ceil((f - now) / 1000))",
        replace: "604800000",
      },
    ],
    profile: "calendar",
    invariants: ["I4"],
  },
  overwrites: {
    mistake: "an acquire overwrites a key of another type",
    patches: [
      {
        file: "adapters/memory/lock-twins.ts",
        find: "if (redis.has(lock)) return [0, granted, -1];",
        replace: "",
      },
      {
        file: "src/scripts/acquire.ts",
        find: "if not redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then return { 0, f, -1 } end",
        replace: "redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])",
      },
    ],
    profile: "mixed",
    invariants: ["I8"],
  },
  "leaves-behind": {
    mistake: "who gives up does not roll back what may have been granted",
    patches: [{ file: "src/lock.ts", find: "if (uncertain) cleanUp();", replace: "" }],
    profile: "mixed",
    invariants: ["I9"],
  },
  "no-signal": {
    mistake: "the signal of a lease that is over stays silent",
    patches: [{ file: "src/holding.ts", find: "controller.abort(lostError());", replace: "" }],
    profile: "mixed",
    invariants: ["I13"],
  },
  "late-signal": {
    mistake: "nobody watches the deadline",
    patches: [
      {
        file: "src/holding.ts",
        find: "if (audience && !ending()) cancelDeadline = env.clock.after(usableMs(context, grant), false, watch);",
        replace: "ending();",
      },
    ],
    profile: "mixed",
    invariants: ["I13"],
  },
  "silence-loses": {
    mistake: "a node that does not answer an extend is taken for one that has lost the lease",
    patches: [
      {
        file: "src/holding.ts",
        find: 'if (reply && reply.type !== "extended") hold.gone = reply.type;',
        replace: 'if (reply?.type !== "extended") hold.gone = reply?.type ?? "absent";',
      },
    ],
    profile: "mixed",
    invariants: ["I12"],
  },
  "late-word": {
    mistake: "an extend that is answered after the deadline brings the lease back where nobody has looked in between",
    patches: [
      {
        file: "src/holding.ts",
        find: "if (!ending() && hear(",
        replace: "if (hear(",
      },
    ],
    profile: "doze",
    invariants: ["I2"],
  },
  "denied-counts": {
    mistake: "what a node has promised counts on after it has said that it does not keep the lease",
    patches: [
      {
        file: "src/holding.ts",
        find: "hold.gone ? -Infinity : leftMs(context, hold)",
        replace: "leftMs(context, hold)",
      },
    ],
    profile: "amnesia",
    invariants: ["I13"],
  },
  "longer-than-asked": {
    mistake: "a server whose clock was set back is believed when it says more than was asked for",
    patches: [{ file: "src/holding.ts", find: "Math.min(remainingMs, leaseMs)", replace: "remainingMs" }],
    profile: "steps",
    invariants: ["I7"],
  },
  "adds-up": {
    mistake: "an extend adds to what is left",
    patches: [
      {
        file: "adapters/memory/lock-twins.ts",
        find: "const want = Number(leaseMs);",
        replace: "const want = left + Number(leaseMs);",
      },
      {
        file: "src/scripts/extend.ts",
        find: "redis.call('PTTL', KEYS[1]), tonumber(ARGV[2])",
        replace: "0, redis.call('PTTL', KEYS[1]) + tonumber(ARGV[2])",
      },
    ],
    profile: "mixed",
    invariants: ["I7"],
  },
  "aborts-released": {
    mistake: "a lease that was let go of ends once more at its deadline, and its signal aborts",
    patches: [{ file: "src/holding.ts", find: "if (endedBy) return;\n    endedBy = by;", replace: "endedBy = by;" }],
    profile: "mixed",
    invariants: ["I15"],
  },
  "forgets-silence": {
    mistake: "a second release takes no account of the first one's unanswered requests",
    patches: [
      { file: "src/release.ts", find: "const deletedBefore = heldAtFirst;", replace: "const deletedBefore = false;" },
    ],
    profile: "mixed",
    invariants: ["I14"],
  },
  "never-renews": {
    mistake: "a lease is not renewed while its task runs",
    patches: [{ file: "src/with-lock.ts", find: "[startRenewal(holding), ", replace: "[() => {}, " }],
    profile: "lossless",
    invariants: ["I0"],
  },
  "late-write": {
    mistake: "a fenced write does not look at the fence that stands there",
    patches: [
      {
        file: "adapters/memory/lock-twins.ts",
        find: "if (Number(text) < tonumber(redis.string(fence))) return 0;",
        replace: "",
      },
      {
        file: "src/scripts/fenced-set.ts",
        find: "if f < (tonumber(redis.call('GET', KEYS[2]) or '') or 0) then return 0 end",
        replace: "",
      },
    ],
    profile: "mixed",
    invariants: ["I5"],
  },
  "writes-once": {
    mistake: "a fence may write once only",
    patches: [
      {
        file: "adapters/memory/lock-twins.ts",
        find: "if (Number(text) < tonumber(",
        replace: "if (Number(text) <= tonumber(",
      },
      { file: "src/scripts/fenced-set.ts", find: "if f < (tonumber(", replace: "if f <= (tonumber(" },
    ],
    profile: "mixed",
    invariants: ["I5"],
  },
  "rolls-back-refused": {
    mistake: "a refusal is rolled back as if something might have been granted",
    patches: [{ file: "src/lock.ts", find: "if (uncertain) cleanUp();", replace: "cleanUp();" }],
    profile: "lossless",
    invariants: ["I11"],
  },
  "own-is-held": {
    mistake: "a try that finds its own grant is told that another holds it",
    patches: [
      {
        file: "adapters/memory/lock-twins.ts",
        find: "return [holder === token ? 1 : 0, counter, redis.pttl(lock)];",
        replace: "return [0, counter, redis.pttl(lock)];",
      },
      { file: "src/scripts/acquire.ts", find: "m[1] == ARGV[1] and 1 or 0", replace: "0" },
    ],
    profile: "mixed",
    invariants: ["I18"],
  },
  "silence-is-held": {
    mistake: "silence is taken for another's lease",
    patches: [
      {
        file: "src/lock.ts",
        find: "const error = tooFewAnswers(",
        replace:
          'if (answer.kind === "unknown" && triedAtOnce)\n' +
          '        return { error: failure("contended", "acquire", name, "another holds it"), cost };\n' +
          "      const error = tooFewAnswers(",
      },
    ],
    profile: "mixed",
    invariants: ["I18"],
  },
  "held-is-certain": {
    mistake: "who is refused forgets that an earlier try was never answered",
    patches: [
      {
        file: "src/lock.ts",
        find: 'if (reply?.type === "held") {',
        replace: 'if (reply?.type === "held") {\n        uncertain = false;',
      },
    ],
    profile: "mixed",
    invariants: ["I6", "I9"],
  },
  "deaf-to-callers": {
    mistake: "who has aborted waits for the answer all the same",
    patches: [
      {
        file: "src/node.ts",
        find: "const stopListening = onAbort(signal,",
        replace: "const stopListening = onAbort(undefined,",
      },
    ],
    profile: "mixed",
    invariants: ["I16"],
  },
  "trusts-clients": {
    mistake: "a client is left to end its waiting by itself when its time is up",
    patches: [
      {
        file: "src/node.ts",
        find: "await untilAborted(runScript(node.client, question, send), timeUp.signal)",
        replace: "await runScript(node.client, question, send)",
      },
    ],
    profile: "mixed",
    invariants: ["I16"],
  },
  "waits-on": {
    mistake: "who may wait no longer goes on waiting",
    patches: [
      {
        file: "src/acquire.ts",
        find: "const leftMs = waitMs - waitedMs;",
        replace: "const leftMs = 20_000 + waitMs - waitedMs;",
      },
    ],
    profile: "mixed",
    invariants: ["I16"],
  },
  M4: {
    mistake: "half of the nodes are taken for a majority",
    patches: [{ file: "src/validity.ts", find: "return Math.floor(n / 2) + 1;", replace: "return Math.floor(n / 2);" }],
    profile: "mixed5",
    invariants: ["I1", "I3", "I4"],
  },
  M10: {
    mistake: "what one node extends counts for all",
    patches: [
      {
        file: "src/holding.ts",
        find: "if (!ending() && hear(context, holds[index] as Hold, answer, leaseMs)) extensions += 1;",
        replace:
          "if (hear(context, holds[index] as Hold, answer, leaseMs)) {\n extensions += 1;\n for (const one of holds) hear(context, one, answer, leaseMs);\n }",
      },
    ],
    profile: "mixed3",
    invariants: ["I1", "I3", "I12"],
  },
  "one-extends": {
    mistake: "an extend succeeds with a single node",
    patches: [
      {
        file: "src/holding.ts",
        find: "const extended = extensions >= quorum;",
        replace: "const extended = extensions > 0;",
      },
    ],
    profile: "mixed3",
    invariants: ["I17"],
  },
  M11: {
    mistake: "each node counts by itself, and the fence is the largest count",
    patches: [
      {
        file: "adapters/memory/lock-twins.ts",
        find: 'if (proposal !== "") {',
        replace: 'if (proposal !== "") granted = counter + 1;\n  if (proposal === "never") {',
      },
      {
        file: "src/scripts/propose.ts",
        find: "local f = tonumber(ARGV[3])\nif f > now + 86400000000 then return { -4, now, 0 } end\nif ARGV[4] or c == 0 then c = math.max(c, now - 1000 * math.min(tonumber(ARGV[2]), 86400000)) end\nif f <= c then return { -3, c, 0 } end",
        replace: "local f = c + 1",
      },
      {
        file: "src/quorum.ts",
        find: "grants += 1;",
        replace:
          "grants += 1;\n          Object.assign(wanted, { best: Math.max(grants === 1 ? 0 : wanted.best, reply.fence) });",
      },
      {
        file: "src/quorum.ts",
        find: "granted(context, { ...wanted, token, fence, holds }, round.cost)",
        replace: "granted(context, { ...wanted, token, fence: wanted.best, holds }, round.cost)",
      },
    ],
    profile: "mixed3",
    invariants: ["I4", "I8"],
  },
  M13: {
    mistake: "only nodes that have granted are rolled back",
    patches: [
      {
        file: "src/quorum.ts",
        find: "cleaning = Promise.all([cleaning, settle(context, rollBack(context, { ...wanted, token }))]);",
        replace:
          "const granted = nodes.filter((_, index) => (holds[index]?.remainingMs ?? 0) > 0);\n" +
          "        cleaning = Promise.all([cleaning, settle(context, rollBack({ ...context, nodes: granted }, { ...wanted, token }))]);",
      },
    ],
    profile: "mixed3",
    invariants: ["I9"],
  },
  M14: {
    mistake: "the last of the deadlines counts, not that of the q-th node",
    patches: [
      {
        file: "src/validity.ts",
        find: "[quorum - 1] ?? -Infinity",
        replace: "[0] ?? -Infinity",
      },
    ],
    profile: "mixed3",
    invariants: ["I1", "I3"],
  },
  M16: {
    mistake: "a node that was just started grants, though it may have forgotten a lease",
    patches: [
      {
        file: "src/quorum.ts",
        find: "const leastUptime = longestMs ?",
        replace: "const leastUptime = longestMs === -1 ?",
      },
    ],
    profile: "quarantine3",
    invariants: ["I1", "I2", "I14"],
  },
  "half-quarantine": {
    mistake: "a node that was just started grants after half of the longest lease",
    patches: [
      {
        file: "src/quorum.ts",
        find: "Math.ceil(longestMs * (1 + driftFactor))",
        replace: "Math.ceil(longestMs * (1 + driftFactor) / 2)",
      },
    ],
    profile: "quarantine3",
    invariants: ["I1", "I2", "I14"],
  },
  "whole-seconds": {
    mistake: "a node's uptime, which it tells in whole seconds, is taken for exact",
    patches: [
      {
        file: "src/quorum.ts",
        find: "Math.ceil(longestMs * (1 + driftFactor)) + 1_000",
        replace: "Math.ceil(longestMs * (1 + driftFactor))",
      },
    ],
    profile: "quarantine3",
    invariants: ["I1", "I2", "I14"],
  },
  "own-quarantine": {
    mistake: "a node that was just started grants after the lease that is asked for, not after the longest",
    patches: [
      {
        file: "src/quorum.ts",
        find: "Math.ceil(longestMs * (1 + driftFactor))",
        replace: "Math.ceil(leaseMs * (1 + driftFactor))",
      },
    ],
    profile: "snapshot3",
    invariants: ["I1", "I2", "I14"],
  },
  "trusts-snapshots": {
    mistake: "a node that was just started grants at once where it remembers a fence",
    patches: [
      {
        file: "adapters/memory/lock-twins.ts",
        find: "leastUptimeMs !== undefined && quarantineMs > 0",
        replace: "leastUptimeMs !== undefined && quarantineMs > 0 && counter === 0",
      },
      { file: "src/scripts/propose.ts", find: "if left > 0 then", replace: "if left > 0 and c == 0 then" },
    ],
    profile: "snapshot3",
    invariants: ["I1", "I2", "I14"],
  },
  "no-floor": {
    mistake: "a node without a counter grants a proposal however old it is",
    patches: [
      {
        file: "adapters/memory/lock-twins.ts",
        find: "if (leastUptimeMs !== undefined || counter === 0)\n      counter = Math.max(counter, now - 1_000 * Math.min(Number(leaseMs), 86_400_000));",
        replace: "",
      },
      {
        file: "src/scripts/propose.ts",
        find: "if ARGV[4] or c == 0 then c = math.max(c, now - 1000 * math.min(tonumber(ARGV[2]), 86400000)) end",
        replace: "",
      },
    ],
    profile: "quarantine3",
    invariants: ["I4"],
  },
  "floor-of-nothing": {
    mistake: "a node that came back with an old counter grants a proposal however old it is",
    patches: [
      {
        file: "adapters/memory/lock-twins.ts",
        find: "if (leastUptimeMs !== undefined || counter === 0)\n      counter = Math.max(counter, now - 1_000 * Math.min(Number(leaseMs), 86_400_000));",
        replace: "if (counter === 0) counter = now - 1_000 * Math.min(Number(leaseMs), 86_400_000);",
      },
      {
        file: "src/scripts/propose.ts",
        find: "if ARGV[4] or c == 0 then c = math.max(c, now - 1000 * math.min(tonumber(ARGV[2]), 86400000)) end",
        replace: "if c == 0 then c = now - 1000 * math.min(tonumber(ARGV[2]), 86400000) end",
      },
    ],
    profile: "snapshot3",
    invariants: ["I4"],
  },
  "bare-majority": {
    mistake: "a raised quorum is ignored, so one node that forgets is enough",
    patches: [
      {
        file: "src/redlock.ts",
        find: "const { quorum = least, driftFactor",
        replace: "const quorum = least;\n  const { driftFactor",
      },
    ],
    profile: "fickle5",
    invariants: ["I1", "I2", "I3", "I13", "I14"],
  },
  "first-answers": {
    mistake: "a release settles at q answers of any kind",
    patches: [
      {
        file: "src/release.ts",
        find: "return !!decided();",
        replace: "return said.deleted + said.absent + said.foreign >= quorum;",
      },
    ],
    profile: "mixed3",
    invariants: ["I14"],
  },
  "no-roll-back": {
    mistake: "a lost round leaves behind what it was granted",
    patches: [
      {
        file: "src/quorum.ts",
        find: "if (round.cost.requests) cleanUp();",
        replace: "",
      },
    ],
    profile: "mixed3",
    invariants: ["I9"],
  },
  "rolls-back-once": {
    mistake: "a roll-back that a node has not answered is not tried again",
    patches: [{ file: "src/release.ts", find: "retry >= 3", replace: "retry >= 1" }],
    profile: "orphans3",
    invariants: ["I9"],
  },
  "never-learns": {
    mistake: "nothing is learnt from a node that finds a proposed fence too low",
    patches: [
      {
        file: "src/quorum.ts",
        find: 'counters[index] = reply.type === "fence-in-future"',
        replace: 'if (reply.type !== "fence-too-low") counters[index] = reply.type === "fence-in-future"',
      },
    ],
    profile: "late3",
    invariants: ["I10"],
  },
  "beyond-reach": {
    mistake: "a fence that is too far ahead to be reached is raised all the same",
    patches: [{ file: "src/quorum.ts", find: "isFar(counter) ? 0 : counter + 1", replace: "counter + 1" }],
    profile: "skewed3",
    invariants: ["I4"],
  },
  "silent-nodes-hold": {
    mistake: "silent nodes are taken for ones where another holds",
    patches: [
      {
        file: "src/quorum.ts",
        find: 'if (tooMany(({ reply }) => !reply || reply.type === "quarantined")) {',
        replace: 'if (tooMany(({ reply }) => reply?.type === "quarantined")) {',
      },
    ],
    profile: "mixed3",
    invariants: ["I18"],
  },
  "no-fence-check": {
    mistake: "a commit needs its token only, which a late copy of its election can make win again",
    patches: [
      {
        file: "adapters/memory/cache-twins.ts",
        find: 'get("t") === token && get("lf") === fence && n("lu") > 0',
        replace: 'get("t") === token && n("lu") > 0',
      },
      { file: "src/scripts/entry.ts", find: "h.t == ARGV[1] and h.lf == ARGV[2]", replace: "h.t == ARGV[1]" },
    ],
    profile: "cache",
    invariants: ["C1", "C4", "C7"],
  },
  "no-token-check": {
    mistake: "a commit needs its fence only, which a server that came back from a snapshot can give again",
    patches: [
      {
        file: "adapters/memory/cache-twins.ts",
        find: 'get("t") === token && get("lf") === fence && n("lu") > 0',
        replace: 'get("lf") === fence && n("lu") > 0',
      },
      { file: "src/scripts/entry.ts", find: "h.t == ARGV[1] and h.lf == ARGV[2]", replace: "h.lf == ARGV[2]" },
    ],
    profile: "restored",
    invariants: ["C1", "C7"],
  },
  "no-check": {
    mistake: "whoever has built may store",
    patches: [
      {
        file: "adapters/memory/cache-twins.ts",
        find: "if (!isMine(token, fence)) {\n    const own",
        replace: "if (fence === token) {\n    const own",
      },
      { file: "src/scripts/commit.ts", find: "if not mine then", replace: "if false then" },
    ],
    profile: "cache",
    invariants: ["C1", "C4", "C7"],
  },
  "joins-late": {
    mistake: "a reader takes what a request brings that was sent before it came",
    patches: [
      {
        file: "src/cache/flight.ts",
        find: "asked.filter((one) => readers.has(one))",
        replace: "[...readers]",
      },
    ],
    profile: "cache",
    invariants: ["C1", "C7"],
  },
  "counts-up": {
    mistake: "the fence of an election is one more than the last, whatever the time",
    patches: [
      {
        file: "adapters/memory/cache-twins.ts",
        find: 'fence: Math.max(redis.nowUs, n("lf") + 1),',
        replace: 'fence: n("lf") + 1,',
      },
      {
        file: "src/scripts/entry.ts",
        find: "local f = s(math.max(us, n('lf') + 1))",
        replace: "local f = s(n('lf') + 1)",
      },
    ],
    profile: "forgetful",
    invariants: ["C2", "C4"],
  },
  "elects-twice": {
    mistake: "an election is given to whoever asks, though another builds",
    patches: [
      { file: "adapters/memory/cache-twins.ts", find: 'if (left > 0) return reply("busy",', replace: 'void ("busy",' },
      {
        file: "src/scripts/elect.ts",
        find: "if left > 0 then return r('busy',",
        replace: "if false then return r('busy',",
      },
    ],
    profile: "cacheCrowd",
    invariants: ["C6"],
  },
  "last-fence": {
    mistake: "a value is served under the last fence that was given, not under its own",
    patches: [
      {
        file: "adapters/memory/cache-twins.ts",
        find: 'n("lf"), n("f"), leftMs,',
        replace: 'n("lf"), n("lf"), leftMs,',
      },
      { file: "src/scripts/entry.ts", find: "n('lf'), n('f'), ms,", replace: "n('lf'), n('lf'), ms," },
    ],
    profile: "cache",
    invariants: ["C3"],
  },
  "soft-is-nothing": {
    mistake: "a soft invalidation voids builds, and leaves what stands fresh",
    patches: [
      { file: "adapters/memory/cache-twins.ts", find: 'Math.min(n("fu"), redis.nowMs)', replace: 'n("fu")' },
      { file: "src/scripts/invalidate.ts", find: "math.min(n('fu'), now)", replace: "n('fu')" },
    ],
    profile: "cache",
    invariants: ["C7"],
  },
  "builds-lapse": {
    mistake: "an election is not renewed while its build runs",
    patches: [{ file: "src/cache/build.ts", find: "if (won && leaseMs < endMs) renewAfter(0.6);", replace: "" }],
    profile: "cacheRenewed",
    invariants: ["C6"],
  },
  endless: {
    mistake: "an entry has no end",
    patches: [
      {
        file: "adapters/memory/cache-twins.ts",
        find: "redis.expire(entry, last - redis.nowMs + 60_000);",
        replace: "",
      },
      { file: "src/scripts/entry.ts", find: "redis.call('PEXPIREAT',", replace: "local _ = (" },
    ],
    profile: "cache",
    invariants: ["C5"],
  },
};

export const mutantNames: readonly string[] = Object.keys(mutants);

export function mutantOf(name: string): Mutant {
  const found = mutants[name];
  if (found === undefined) throw new Error(`No mutant is called "${name}": there are ${mutantNames.join(", ")}`);
  return found;
}
