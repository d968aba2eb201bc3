/**
 * The promises of the layout, each as a function from files to findings: one sentence for each breach, none if it is
 * kept.
 *
 * @module
 */
import { posix } from "node:path";
import { computedImport, type SourceFile } from "./source.ts";

/** What a file in src may import: only what stands in an earlier row, or beside it in its own without a cycle. */
const tiers: readonly (readonly string[])[] = [
  ["command", "errors", "events", "clock", "random", "host", "validate"],
  ["environment"],
  ["script", "scripts", "keys", "validity", "wait", "plain-command"],
  ["node"],
  ["context", "round", "holding", "lease", "release", "renewal"],
  ["acquire", "with-lock"],
  ["lock-methods", "lock", "quorum", "redlock", "fence", "inspect", "doctor", "self-test"],
  ["cache"],
  ["index"],
];

const boundary = ["command", "errors", "events", "clock", "host"];

/** What an adapter may import of src, of packages, and of other adapters; the others get the boundary and nothing else. */
interface Grant {
  readonly src: readonly string[];
  readonly packages: readonly string[];
  readonly adapters?: readonly string[];
}

const observer: Grant = { src: boundary, packages: [], adapters: ["measurements"] };

const adapterGrants: Readonly<Record<string, Grant>> = {
  memory: { src: [...boundary, "environment", "script", "scripts"], packages: [] },
  "rest-server": { src: boundary, packages: ["hono"] },
  opentelemetry: observer,
  prometheus: observer,
};

/** Names that reach a clock, chance or a runtime, and the files that may use them. */
const owners: Readonly<Record<string, readonly string[]>> = {
  ...owned("Date performance setTimeout clearTimeout setInterval clearInterval setImmediate Temporal", "src/clock.ts"),
  ...owned("AbortSignal.timeout", "src/clock.ts"),
  ...owned("getRandomValues randomUUID .getRandomValues .randomUUID Math.random", "src/random.ts"),
  ...owned("crypto", "src/random.ts", "src/script.ts"), // for tokens, and for the hash of a script
  ...owned("navigator process Deno Bun EdgeRuntime Netlify caches WebSocketPair require", "src/host.ts"),
};

const vagueNames = /^(utils?|helpers?|common|types?|core|managers?|base)$/;

/** The room in src that a file belongs to: its name, or its folder's. */
function roomOf(path: string): string | undefined {
  return /^src\/([^/.]+)/.exec(path)?.[1];
}

function tierOf(path: string): number {
  const room = roomOf(path);
  return tiers.findIndex((tier) => room !== undefined && tier.includes(room));
}

/** The entry that an adapter's file belongs to: a folder, or the longest entry name that its own name begins with. */
function adapterOf(path: string, entries: readonly string[]): string {
  const name = /^adapters\/([^/.]+)/.exec(path)?.[1] ?? "";
  const owning = entries.filter((entry) => name === entry || name.startsWith(`${entry}-`));
  return owning.sort((a, b) => b.length - a.length)[0] ?? name;
}

function packageOf(specifier: string): string {
  return /^(@[^/]+\/)?[^/]+/.exec(specifier)?.[0] ?? specifier;
}

function isRelative(specifier: string): boolean {
  return specifier.startsWith(".");
}

function targetOf(path: string, specifier: string): string {
  return posix.join(posix.dirname(path), specifier);
}

/** src imports nothing but src, downwards. */
export function srcImportFindings(files: readonly SourceFile[]): string[] {
  return files
    .filter(({ path }) => path.startsWith("src/"))
    .flatMap(({ path, imports }) => {
      if (tierOf(path) < 0) return [`${path} has no tier`];
      return imports
        .filter((specifier) => {
          const tier = isRelative(specifier) ? tierOf(targetOf(path, specifier)) : -1;
          return tier < 0 || tier > tierOf(path);
        })
        .map((specifier) => `${path} may not import ${specifier}`);
    });
}

/** An adapter imports its own files, and of src and of packages what it was granted. */
export function adapterImportFindings(files: readonly SourceFile[], entries: readonly string[]): string[] {
  return files
    .filter(({ path }) => path.startsWith("adapters/"))
    .flatMap(({ path, imports }) => {
      const adapter = adapterOf(path, entries);
      const { src, packages, adapters = [] } = adapterGrants[adapter] ?? { src: boundary, packages: [] };
      const allowed = (specifier: string): boolean => {
        if (!isRelative(specifier)) return packages.includes(packageOf(specifier));
        const target = targetOf(path, specifier);
        if (target.startsWith("adapters/")) return [adapter, ...adapters].includes(adapterOf(target, entries));
        return src.includes(roomOf(target) ?? "");
      };
      return imports.filter((specifier) => !allowed(specifier)).map((found) => `${path} may not import ${found}`);
    });
}

/**
 * Examples, benches and the command line are users: the package by its name, Node, declared packages, own files. All
 * examples are shown by the same stampede.
 */
export function userImportFindings(files: readonly SourceFile[], declared: readonly string[]): string[] {
  const rooms = /^(examples\/[^/]+|bench|bin)\//;
  return files.flatMap(({ path, imports }) => {
    const room = rooms.exec(path)?.[0];
    if (room === undefined) return [];
    const allowed = (specifier: string): boolean => {
      const target = targetOf(path, specifier);
      const shared = room.startsWith("examples/") && target.startsWith("examples/stampede/");
      if (isRelative(specifier)) return target.startsWith(room) || shared;
      return /^(node|cloudflare):|^bun$/.test(specifier) || ["leasehold", ...declared].includes(packageOf(specifier));
    };
    return imports.filter((specifier) => !allowed(specifier)).map((found) => `${path} may not import ${found}`);
  });
}

/** No file imports itself by way of others, in src or within an adapter. */
export function cycleFindings(files: readonly SourceFile[]): string[] {
  const edges = new Map(
    files.map(({ path, imports }) => [path, imports.filter(isRelative).map((specifier) => targetOf(path, specifier))]),
  );
  const done = new Set<string>();
  const findings: string[] = [];
  const walk = (path: string, above: readonly string[]): void => {
    if (above.includes(path)) {
      findings.push([...above.slice(above.indexOf(path)), path].join(" imports "));
      return;
    }
    if (done.has(path)) return;
    for (const next of edges.get(path) ?? []) walk(next, [...above, path]);
    done.add(path);
  };
  for (const path of edges.keys()) walk(path, []);
  return findings;
}

/** Every entry has a source, every adapter's file an entry that leads to it, and all are declared alike. */
export function exportsFindings(files: readonly SourceFile[], exports: Readonly<Record<string, unknown>>): string[] {
  const findings: string[] = [];
  const entryFiles: string[] = [];
  for (const [entry, target] of Object.entries(exports)) {
    if (entry === "./package.json") continue;
    const name = entry.slice(2);
    const candidates = name === "" ? ["src/index.ts"] : [`adapters/${name}.ts`, `adapters/${name}/index.ts`];
    const file = candidates.find((candidate) => files.some(({ path }) => path === candidate));
    if (file === undefined) findings.push(`"${entry}" has no source`);
    else {
      entryFiles.push(file);
      const built = `./dist/${file.replace(/\.ts$/, "")}`;
      const wanted = { "leasehold-source": `./${file}`, types: `${built}.d.ts`, default: `${built}.js` };
      if (JSON.stringify(target) !== JSON.stringify(wanted))
        findings.push(`"${entry}" must be ${JSON.stringify(wanted)}`);
    }
  }
  const reached = new Set(entryFiles);
  for (const path of reached) {
    for (const specifier of files.find((file) => file.path === path)?.imports ?? []) {
      if (isRelative(specifier)) reached.add(targetOf(path, specifier));
    }
  }
  const unreached = files.filter(({ path }) => /^(src|adapters)\//.test(path) && !reached.has(path));
  return [...findings, ...unreached.map(({ path }) => `${path} is reached by no entry`)];
}

/** What the adapters are for is declared as a peer, an optional one, and nothing else is. A runtime is no package. */
export function peerFindings(
  files: readonly SourceFile[],
  { peerDependencies = {}, peerDependenciesMeta = {}, dependencies = {} }: Manifest,
): string[] {
  const used = new Set(
    files
      .filter(({ path }) => path.startsWith("adapters/"))
      .flatMap(({ imports, exampleImports }) => [...imports, ...exampleImports])
      .filter((specifier) => !isRelative(specifier) && specifier !== computedImport)
      .map(packageOf)
      .filter((name) => name !== "leasehold" && name !== "bun"),
  );
  const declared = Object.keys(peerDependencies);
  return [
    ...Object.keys(dependencies).map((name) => `${name} may not be a dependency`),
    ...[...used].filter((name) => !declared.includes(name)).map((name) => `${name} is used but no peer`),
    ...declared.filter((name) => !used.has(name)).map((name) => `${name} is a peer but not used`),
    ...declared
      .filter((name) => peerDependenciesMeta[name]?.optional !== true)
      .map((name) => `${name} is a peer but not an optional one`),
  ];
}

/** What of package.json the rules read. */
export interface Manifest {
  readonly dependencies?: Readonly<Record<string, string>>;
  readonly peerDependencies?: Readonly<Record<string, string>>;
  readonly peerDependenciesMeta?: Readonly<Record<string, { readonly optional?: boolean }>>;
}

/** Clocks, chance and runtimes each have one door. */
export function doorFindings(files: readonly SourceFile[]): string[] {
  return files
    .filter(({ path }) => /^(src|adapters)\//.test(path))
    .flatMap(({ path, words }) =>
      [...words]
        .filter((word) => owners[word]?.includes(path) === false)
        .map((word) => `${path} may not use ${word}: only ${owners[word]?.join(" and ")} may`),
    );
}

/** A file that outgrows its sentence is to be split. */
export function ceilingFindings(files: readonly SourceFile[]): string[] {
  return files.flatMap(({ path, lines, functions }) => {
    const ceiling = ceilingOf(path);
    if (ceiling === undefined) return [];
    return [
      ...(lines > ceiling ? [`${path} has ${lines} lines: at most ${ceiling}`] : []),
      ...functions
        .filter((found) => found.lines > 70)
        .map((found) => `${path}: ${found.name} has ${found.lines} lines: at most 70`),
    ];
  });
}

function ceilingOf(path: string): number | undefined {
  if (path.startsWith("src/scripts/")) return 60;
  if (path.startsWith("src/")) return 200;
  return path.startsWith("adapters/") ? 120 : undefined;
}

/** A name that says nothing collects what has no place. */
export function nameFindings(paths: readonly string[]): string[] {
  return paths
    .filter((path) => path.split("/").some((part) => vagueNames.test(part.replace(/(\.test)?\.ts$/, ""))))
    .map((path) => `${path} has a name that says nothing`);
}

function owned(words: string, ...files: string[]): Record<string, readonly string[]> {
  return Object.fromEntries(words.split(" ").map((word) => [word, files]));
}
