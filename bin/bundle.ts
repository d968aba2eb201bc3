/**
 * Builds the command into one file, with the libraries that it needs, so that `npx leasehold` installs nothing else; and
 * puts their licences beside it.
 *
 * Run: `npm run build`.
 *
 * @module
 */
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { build, type Plugin } from "esbuild";

const root = fileURLToPath(new URL("..", import.meta.url));
const target = join(root, "dist/bin");

/** ioredis writes every command to standard error where DEBUG asks for it: passwords and tokens among them. */
const mute: Plugin = {
  name: "mute",
  setup({ onResolve, onLoad }) {
    const namespace = "mute";
    onResolve({ filter: /^debug$/ }, ({ path }) => ({ path, namespace }));
    onLoad({ filter: /.*/, namespace }, () => ({
      contents: "const mute = () => () => {}; module.exports = Object.assign(mute, { default: mute });",
    }));
  },
};

const { metafile } = await build({
  absWorkingDir: root,
  entryPoints: ["bin/leasehold.ts"],
  outfile: join(target, "leasehold.cjs"),
  bundle: true,
  platform: "node",
  target: "node20",
  // Some of the libraries look for Node's modules by `require`, which a module does not have.
  format: "cjs",
  conditions: ["leasehold-source"],
  // Names stay: ioredis tells its errors by those of their classes.
  minifySyntax: true,
  minifyWhitespace: true,
  legalComments: "none",
  logLevel: "warning",
  plugins: [mute],
  metafile: true,
});

const packages = new Set(
  Object.keys(metafile.inputs).flatMap((path) => /.*\bnode_modules\/((?:@[^/]+\/)?[^/]+)/.exec(path)?.[1] ?? []),
);
const licences = [...packages].sort().map((name) => `# ${name}\n\n${licenceOf(join(root, "node_modules", name))}\n`);
writeFileSync(join(target, "LICENSES.md"), `leasehold.cjs contains these packages.\n\n${licences.join("\n")}`);

function licenceOf(folder: string): string {
  const file = readdirSync(folder).find((name) => /^licen[cs]e/i.test(name));
  if (file !== undefined) return readFileSync(join(folder, file), "utf8").trim();
  const { license, author }: { license?: string; author?: unknown } = JSON.parse(
    readFileSync(join(folder, "package.json"), "utf8"),
  );
  if (!license) throw new Error(`Cannot bundle ${folder} as it has no licence`);
  return `${license}, by ${JSON.stringify(author)}`;
}
