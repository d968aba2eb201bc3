/** The worlds in which locks and caches are tried: each makes one kind of trouble likely. */
import type { MessageFault, NetworkSettings } from "./network.ts";

export type Cycle = "hold" | "extend" | "task" | "poll" | "abort" | "abandon" | "sleep" | "doze" | "greedy";

interface WorldProfile {
  readonly nodes: number;
  readonly processes: number;
  /** Nothing new begins after this. */
  readonly lengthMs: number;
  readonly thinkMs: readonly [least: number, most: number];
  readonly leaseMs: number;
  readonly waitMs: number;
  readonly network: NetworkSettings;
  /** Rates of the clocks: at random within what the drift factor allows, or servers fast and clients slow. */
  readonly rates: "true" | "random" | "opposed";
  /** How far wall clocks may be off at the start; not where rates are true. */
  readonly skewMs: number;
  /** How far the last process's wall clock is behind all others. */
  readonly behindMs: number;
  readonly trouble: Trouble;
  readonly isWorker: boolean;
  /**
   * Leases acquired or reads served in a seed: what `npm run sim -- --profile <name>` prints of the shipped code, the mean
   * of the seeds from 0 to 99.
   */
  readonly usualProgress: number;
  /** I11: nothing goes wrong, and what each call costs is known. */
  readonly countsRequests: boolean;
}

export interface LockProfile extends WorldProfile {
  readonly kind: "lock";
  readonly quorum: number | undefined;
  readonly quarantineMs?: number;
  /** How long a holder holds, and how often it looks whether it may act. */
  readonly holdMs: readonly [least: number, most: number];
  readonly lookMs: number;
  readonly cycles: readonly (readonly [Cycle, number])[];
  /** I9: how long keys that were rolled back may stand on nodes, in a seed, on average over many. */
  readonly mostOrphanMs?: number;
  /** No two at once. Without it only the order of the fences is promised. */
  readonly exclusion: boolean;
}

export interface CacheProfile extends WorldProfile {
  readonly kind: "cache";
  /** Reads at the same time in each process. */
  readonly readers: number;
  readonly keys: number;
  readonly freshMs: number;
  readonly staleMs: number;
  readonly errorMs: number;
  readonly buildMs: readonly [least: number, most: number];
  /** How often the data of a key changes. */
  readonly changeEveryMs: number;
  /** How often a build fails, from 0 to 1. */
  readonly failures: number;
  /** C6: as leases are long and nothing goes wrong, no two builds of a key run at once. */
  readonly buildsAlone: boolean;
  /** How often the winner's election is played again right after an invalidation. */
  readonly replays: number;
  /** How often the server comes back from an old snapshot, just as a key is looked at: empty, and its clock back. */
  readonly restores: number;
}

export type Profile = LockProfile | CacheProfile;

/** What befalls processes and nodes: means between two, in ms; 0 is never. */
export interface Trouble {
  /** A process is frozen for 0.2 to 2.7 s. Of half of them the monotonic clock stops meanwhile. */
  readonly freezeEveryMs: number;
  /** The wall clock of one of the other half is set by up to a minute, and as a rule by little. */
  readonly clientStepEveryMs: number;
  /** A process and a node neither reach nor hear each other for up to 4 s. */
  readonly cutOffEveryMs: number;
  /** So many nodes step their clocks and forget; the others only restart. */
  readonly fickleNodes: number;
  readonly serverStepEveryMs: number;
  readonly serverStepMs: readonly [least: number, most: number];
  readonly restartEveryMs: number;
  /** The power goes, and all nodes restart at once. */
  readonly powerCutEveryMs: number;
  /** How long a node is away. */
  readonly restartMs: readonly [least: number, most: number];
  /** A restart loses all data, or comes back with the last snapshot. */
  readonly forgets: boolean;
  readonly snapshotEveryMs: number;
  /** A node is full for up to a second, and refuses to write. */
  readonly fullEveryMs: number;
  /** Somebody else puts a list where the lock's key is, and takes it away within a second. */
  readonly intruderEveryMs: number;
}

const noFaults: Readonly<Record<MessageFault, number>> = {
  tail: 0,
  "drop request": 0,
  "drop reply": 0,
  reset: 0,
  repeat: 0,
  duplicate: 0,
  error: 0,
  rubbish: 0,
  fabricate: 0,
};

/** All that can happen to a message. */
const faulty: NetworkSettings["faults"] = {
  tail: 0.08,
  "drop request": 0.06,
  "drop reply": 0.06,
  reset: 0.5,
  repeat: 0.3,
  duplicate: 0.06,
  error: 0.02,
  rubbish: 0.03,
  fabricate: 0.5,
};

const calm: Trouble = {
  freezeEveryMs: 0,
  clientStepEveryMs: 0,
  cutOffEveryMs: 0,
  fickleNodes: Infinity,
  serverStepEveryMs: 0,
  serverStepMs: [0, 0],
  restartEveryMs: 0,
  powerCutEveryMs: 0,
  restartMs: [10, 1_500],
  forgets: false,
  snapshotEveryMs: 0,
  fullEveryMs: 0,
  intruderEveryMs: 0,
};

/** Everything at once, with short leases. */
const mixed: LockProfile = {
  kind: "lock",
  nodes: 1,
  quorum: undefined,
  processes: 4,
  leaseMs: 1_000,
  waitMs: 3_000,
  lengthMs: 20_000,
  thinkMs: [0, 400],
  holdMs: [0, 1_200],
  lookMs: 20,
  cycles: [
    ["hold", 4],
    ["extend", 3],
    ["task", 3],
    ["poll", 1],
    ["abort", 1],
    ["abandon", 1],
    ["sleep", 1],
  ],
  network: { oneWayMs: 8, sigma: 0.35, farMs: 0, slowReplyMs: 0, slowGrantMs: 0, faults: faulty },
  rates: "random",
  skewMs: 500,
  behindMs: 0,
  trouble: {
    ...calm,
    freezeEveryMs: 6_000,
    clientStepEveryMs: 8_000,
    cutOffEveryMs: 20_000,
    restartEveryMs: 15_000,
    fullEveryMs: 12_000,
    intruderEveryMs: 6_000,
  },
  exclusion: true,
  isWorker: false,
  usualProgress: 18.3,
  countsRequests: false,
};

/** Holders act each millisecond until they may not, among many who poll; replies are slow. */
const greedy: LockProfile = {
  ...mixed,
  usualProgress: 4.94,
  processes: 6,
  waitMs: 0,
  lengthMs: 6_000,
  thinkMs: [2, 10],
  holdMs: [2_000, 2_000],
  lookMs: 1,
  cycles: [["greedy", 1]],
  network: { ...mixed.network, oneWayMs: 3, slowReplyMs: 240, faults: { ...noFaults, "drop reply": 0.03 } },
  trouble: calm,
};

/** Leases hardly longer than a slow round trip: many grants come too late to be of use, and are rolled back. */
const short: LockProfile = {
  ...mixed,
  usualProgress: 37.9,
  leaseMs: 300,
  waitMs: 3_000,
  holdMs: [0, 300],
  thinkMs: [0, 100],
  lookMs: 5,
  cycles: [
    ["hold", 4],
    ["extend", 1],
  ],
  network: { oneWayMs: 10, sigma: 0.8, farMs: 0, slowReplyMs: 260, slowGrantMs: 0, faults: { ...faulty, tail: 0.3 } },
  trouble: calm,
};

/** Long leases and clocks at the two ends of what is allowed. */
const drift: LockProfile = {
  ...mixed,
  usualProgress: 2.06,
  processes: 3,
  leaseMs: 30_000,
  waitMs: 0,
  lengthMs: 70_000,
  thinkMs: [20, 200],
  holdMs: [60_000, 60_000],
  lookMs: 20,
  cycles: [["greedy", 1]],
  network: { ...mixed.network, faults: { ...noFaults, "drop reply": 0.05 } },
  rates: "opposed",
  trouble: calm,
};

/** Servers' clocks are set: only fences are promised. */
const steps: LockProfile = {
  ...mixed,
  usualProgress: 18.1,
  trouble: { ...mixed.trouble, serverStepEveryMs: 3_000, serverStepMs: [-3_000, 3_000] },
  exclusion: false,
};

/** Days between two holders, and a server's clock that is set back by weeks: a fence that has run ahead is not forgotten. */
const calendar: LockProfile = {
  ...mixed,
  usualProgress: 46.8,
  processes: 2,
  lengthMs: 120 * 86_400_000,
  thinkMs: [0, 9 * 86_400_000],
  cycles: [
    ["hold", 1],
    ["poll", 1],
  ],
  trouble: { ...calm, serverStepEveryMs: 15 * 86_400_000, serverStepMs: [-40 * 86_400_000, 0] },
  exclusion: false,
};

/** A node forgets everything: only fences are promised. */
const amnesia: LockProfile = {
  ...mixed,
  usualProgress: 18,
  trouble: { ...mixed.trouble, restartEveryMs: 4_000, forgets: true },
  exclusion: false,
};

/** Nothing goes wrong, so that requests can be counted. */
const lossless: LockProfile = {
  ...mixed,
  usualProgress: 36.6,
  cycles: [
    ["hold", 2],
    ["poll", 2],
    ["task", 1],
  ],
  holdMs: [0, 300],
  network: { ...mixed.network, faults: noFaults },
  rates: "true",
  trouble: calm,
  countsRequests: true,
};

/** One clock that stands still between events, six connections, and nothing after the response but `waitUntil`. */
const workers: LockProfile = {
  ...mixed,
  usualProgress: 15.9,
  trouble: { ...mixed.trouble, freezeEveryMs: 0, clientStepEveryMs: 0 },
  isWorker: true,
};

/** Machines sleep while an extend is under way, and wake after others have held; old acquires come once more. */
const doze: LockProfile = {
  ...mixed,
  usualProgress: 35.3,
  processes: 3,
  waitMs: 5_000,
  lengthMs: 40_000,
  holdMs: [0, 50],
  cycles: [
    ["doze", 1],
    ["hold", 2],
  ],
  network: { ...mixed.network, faults: { ...noFaults, duplicate: 1, tail: 0.3 } },
  trouble: calm,
};

/** Reads, builds, changes and invalidations of a few keys, with every fault, and old elections played again. */
const cache: CacheProfile = {
  kind: "cache",
  nodes: 1,
  processes: 4,
  readers: 3,
  keys: 2,
  leaseMs: 400,
  waitMs: 2_000,
  lengthMs: 12_000,
  thinkMs: [0, 200],
  freshMs: 600,
  staleMs: 300,
  errorMs: 600,
  buildMs: [0, 300],
  changeEveryMs: 500,
  failures: 0.05,
  buildsAlone: false,
  replays: 0.5,
  restores: 0,
  network: mixed.network,
  rates: "random",
  skewMs: 500,
  behindMs: 0,
  trouble: { ...mixed.trouble, intruderEveryMs: 0 },
  isWorker: false,
  usualProgress: 115,
  countsRequests: false,
};

const crowd: CacheProfile = {
  ...cache,
  usualProgress: 936,
  leaseMs: 2_000,
  failures: 0,
  replays: 0,
  network: lossless.network,
  rates: "true",
  trouble: calm,
  buildsAlone: true,
};

const profiles: Readonly<Record<string, Profile>> = {
  mixed,
  greedy,
  short,
  drift,
  steps,
  calendar,
  amnesia,
  lossless,
  workers,
  doze,
  cache,
  /** Slow builds, short leases: most live by their renewals, and are overtaken where these are late. */
  overtaken: { ...cache, usualProgress: 94.7, leaseMs: 100, buildMs: [0, 600] },
  /** The server forgets everything, again and again. */
  forgetful: {
    ...cache,
    usualProgress: 99.4,
    trouble: { ...cache.trouble, restartEveryMs: 2_000, forgets: true },
  },
  /** A request a process at a time, as on Workers: no reader shares another's build. */
  cacheWorkers: {
    ...cache,
    usualProgress: 65.7,
    processes: 8,
    readers: 1,
    isWorker: true,
    trouble: { ...cache.trouble, freezeEveryMs: 0, clientStepEveryMs: 0 },
  },
  /** A snapshot gives a new election the fence of an old one: only the token tells them apart. */
  restored: {
    ...cache,
    usualProgress: 4.55,
    leaseMs: 2_000,
    buildMs: [0, 1_200],
    changeEveryMs: 400,
    replays: 0,
    restores: 0.3,
    trouble: { ...calm, freezeEveryMs: 3_000 },
  },
  /** Nothing goes wrong, in a crowd and for a single reader. */
  cacheCrowd: crowd,
  /** Builds that take longer than a lease are alone, as they are renewed. */
  cacheRenewed: { ...crowd, usualProgress: 675, leaseMs: 200, buildMs: [0, 600] },
  cacheLossless: { ...crowd, usualProgress: 60.9, processes: 3, readers: 1, countsRequests: true },
  mixed3: { ...mixed, nodes: 3, usualProgress: 16.5, mostOrphanMs: 6_000 },
  /** One client's clock is hours behind, and nobody else is there to be waited for: it learns from refusals alone. */
  late3: {
    ...mixed,
    nodes: 3,
    processes: 2,
    lengthMs: 12_000,
    thinkMs: [100, 900],
    holdMs: [0, 50],
    waitMs: 300,
    cycles: [["hold", 1]],
    behindMs: 3 * 3_600_000,
    usualProgress: 40.5,
    network: { ...mixed.network, faults: noFaults },
    trouble: calm,
  },
  /** Leases that last too long for a key left behind to be waited for, and requests that are often lost. */
  orphans3: {
    ...mixed,
    nodes: 3,
    leaseMs: 20_000,
    holdMs: [0, 300],
    thinkMs: [0, 200],
    cycles: [
      ["hold", 3],
      ["poll", 1],
    ],
    usualProgress: 19.3,
    mostOrphanMs: 7_000,
    network: { ...mixed.network, faults: { ...noFaults, "drop request": 0.06, "drop reply": 0.03 } },
    trouble: calm,
  },
  /** With an even number of nodes no majority is bare. */
  mixed4: { ...mixed, nodes: 4, lengthMs: 12_000, usualProgress: 8.36 },
  /** Wall clocks are off by more than a day: some clients have to raise their fences, some cannot take part. */
  skewed3: { ...mixed, nodes: 3, lengthMs: 12_000, usualProgress: 7.42, skewMs: 60_000_000 },
  /** Days between two holders, whose clocks are hours apart. */
  calendar3: { ...calendar, nodes: 3, usualProgress: 45.3, skewMs: 20_000_000, exclusion: true, trouble: calm },
  /** One of three nodes is on another continent. */
  far3: { ...mixed, nodes: 3, lengthMs: 12_000, usualProgress: 6.05, network: { ...mixed.network, farMs: 150 } },
  mixed5: { ...mixed, nodes: 5, lengthMs: 12_000, usualProgress: 10.2 },
  greedy3: {
    ...greedy,
    nodes: 3,
    processes: 4,
    lengthMs: 5_000,
    usualProgress: 3.87,
    network: { ...greedy.network, slowReplyMs: 0, slowGrantMs: 100 },
  },
  drift3: { ...drift, nodes: 3, lengthMs: 40_000, usualProgress: 1.34 },
  short3: { ...short, nodes: 3, lengthMs: 8_000, usualProgress: 10.2 },
  lossless3: { ...lossless, nodes: 3, lengthMs: 8_000, usualProgress: 16.4 },
  workers3: { ...workers, nodes: 3, usualProgress: 10.3 },
  /** As many nodes as a Worker can ask at once; a roll-back has to wait for the round that it ends. */
  workers5: { ...workers, nodes: 5, lengthMs: 12_000, usualProgress: 7.25 },
  /** Any node may forget: only fences are promised, and only as far as the clients' clocks agree. */
  amnesia3: {
    ...amnesia,
    nodes: 3,
    usualProgress: 16.8,
    rates: "true",
    trouble: { ...amnesia.trouble, clientStepEveryMs: 0 },
  },
  /**
   * Any node may forget, or all at once, but grants nothing for a lease's time after that, so that no two hold at once,
   * and fences grow though one client is hours behind. Nodes are back at once and leases are held to their end: a moment
   * less shows. In whole seconds, by which Redis tells its uptime, this lease leaves nothing over.
   */
  quarantine3: {
    ...amnesia,
    nodes: 3,
    leaseMs: 1_980,
    quarantineMs: 1_980,
    waitMs: 3_000,
    holdMs: [1_980, 1_980],
    cycles: [["hold", 1]],
    usualProgress: 8.08,
    behindMs: 3 * 3_600_000,
    network: { ...mixed.network, faults: { ...noFaults, "drop request": 0.1, "drop reply": 0.03, duplicate: 0.06 } },
    trouble: { ...calm, restartEveryMs: 10_000, powerCutEveryMs: 6_000, restartMs: [10, 50], forgets: true },
    exclusion: true,
  },
  /**
   * Nodes come back with an old snapshot: with a counter, but without the latest lease, or with one that has been extended
   * since. Leases are shorter than the longest that nodes wait for.
   */
  snapshot3: {
    ...mixed,
    nodes: 3,
    leaseMs: 980,
    quarantineMs: 2_980,
    holdMs: [0, 2_980],
    cycles: [
      ["hold", 1],
      ["extend", 3],
      ["task", 1],
    ],
    usualProgress: 8.95,
    behindMs: 3 * 3_600_000,
    network: { ...mixed.network, faults: { ...noFaults, "drop request": 0.06, "drop reply": 0.03, duplicate: 0.3 } },
    trouble: {
      ...calm,
      freezeEveryMs: 6_000,
      powerCutEveryMs: 8_000,
      restartMs: [10, 50],
      forgets: true,
      snapshotEveryMs: 1_000,
    },
  },
  /** A quorum of four makes up for one of five nodes that forgets, and whose clock is stepped. */
  fickle5: {
    ...mixed,
    nodes: 5,
    quorum: 4,
    lengthMs: 12_000,
    usualProgress: 4.55,
    trouble: {
      ...mixed.trouble,
      fickleNodes: 1,
      serverStepEveryMs: 3_000,
      serverStepMs: [-3_000, 3_000],
      restartEveryMs: 4_000,
      forgets: true,
    },
  },
};

export const profileNames: readonly string[] = Object.keys(profiles);

export function profileOf(name: string): Profile {
  const found = profiles[name];
  if (found === undefined) throw new Error(`No profile is called "${name}": there are ${profileNames.join(", ")}`);
  return found;
}

/** I9: says so where more is left behind than bad luck leaves. A few seeds tell nothing. */
export function excess(batch: {
  readonly profile: string;
  readonly seeds: number;
  readonly orphanMs: number;
}): string | undefined {
  const profile = profileOf(batch.profile);
  const { mostOrphanMs = Infinity } = profile.kind === "lock" ? profile : {};
  const average = batch.orphanMs / batch.seeds;
  if (batch.seeds < 30 || average <= mostOrphanMs) return undefined;
  return `keys stood for ${average.toFixed(0)} ms a seed after they were rolled back, where ${mostOrphanMs} are the most`;
}

/** I10: says so where a batch has come less than 80 % as far as is usual. A few seeds tell nothing. */
export function shortfall(batch: {
  readonly profile: string;
  readonly seeds: number;
  readonly progress: number;
}): string | undefined {
  const average = batch.progress / batch.seeds;
  const { usualProgress } = profileOf(batch.profile);
  if (batch.seeds < 30 || average >= 0.8 * usualProgress) return undefined;
  return `${average.toFixed(2)} leases or reads a seed, where ${usualProgress} are usual`;
}
