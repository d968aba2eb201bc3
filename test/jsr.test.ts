/** What JSR would be given: the same entries as npm, as sources, with types that need no inference. */
import { execFile } from "node:child_process";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { expect, test } from "vitest";
import jsr from "../jsr.json" with { type: "json" };
import manifest from "../package.json" with { type: "json" };

const root = fileURLToPath(new URL("..", import.meta.url));

test("jsr.json has the version, the licence and the entries of package.json", () => {
  const entries = Object.entries(manifest.exports).flatMap(([entry, target]) =>
    typeof target === "string" ? [] : [[entry, target["leasehold-source"]]],
  );
  expect(jsr.exports).toEqual(Object.fromEntries(entries));
  expect([jsr.version, jsr.license]).toEqual([manifest.version, manifest.license]);
});

test("deno publish --dry-run takes all of it, and nothing else", async () => {
  const deno = `${root}node_modules/.bin/deno`;
  const env = { ...process.env, NO_COLOR: "1", DENO_NO_UPDATE_CHECK: "1" };
  const flags = ["publish", "--dry-run", "--allow-dirty", "--no-lock"];
  const { stderr } = await promisify(execFile)(deno, flags, { cwd: root, env });
  expect(stderr).toContain("Success Dry run complete");
  const published = [...stderr.matchAll(/^ +file:\/\/(\S+)/gm)].map(([, path = ""]) => path.slice(root.length));
  expect(published).toContain("src/index.ts");
  expect(
    published.filter((path) => !/^(src|adapters)\/|^(README|CHANGELOG)\.md$|^LICENSE$|^jsr\.json$/.test(path)),
  ).toEqual([]);
}, 60_000);
