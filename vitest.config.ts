import { fileURLToPath } from "node:url";
import { defineConfig, type ViteUserConfig } from "vitest/config";
import manifest from "./package.json" with { type: "json" };
import { TallyReporter } from "./test/support/tally.ts";

/** The package's own name and entries, as tests, examples and snippets write them, lead to the sources. */
const alias = Object.entries(manifest.exports).flatMap(([entry, target]) =>
  typeof target === "string"
    ? []
    : {
        find: new RegExp(`^leasehold${entry.slice(1)}$`),
        replacement: fileURLToPath(new URL(target["leasehold-source"], import.meta.url)),
      },
);

const config: ViteUserConfig = defineConfig({
  resolve: { alias },
  test: {
    environment: "node",
    include: ["test/**/*.test.ts"],
    exclude: ["test/fixtures/**"],
    // Nothing waits for real time in a unit test; what starts a server, a compiler or a runtime may be slow.
    testTimeout: 20_000,
    hookTimeout: 20_000,
    maxWorkers: 2,
    reporters: ["default", new TallyReporter()],
  },
});

export default config;
