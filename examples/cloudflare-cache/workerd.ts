/**
 * Runs the Worker in workerd, by `wrangler dev` and the project's own `wrangler.toml`.
 *
 * @module
 */
import { createRequire } from "node:module";
import { devNull } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { startProgram } from "../stampede/parts.ts";

const packageFile = createRequire(import.meta.url).resolve("wrangler/package.json");
const wrangler = join(dirname(packageFile), "bin", "wrangler.js");
const config = fileURLToPath(new URL("../../wrangler.toml", import.meta.url));

/** No telemetry, no update check, no look-up of where this machine is, no questions. */
const quiet = {
  CI: "1",
  WRANGLER_HIDE_BANNER: "true",
  WRANGLER_SEND_METRICS: "false",
  WRANGLER_SEND_ERROR_REPORTS: "false",
  CLOUDFLARE_CF_FETCH_ENABLED: "false",
};

/** How the Worker is started. */
export interface WorkerSettings {
  /** Receives what wrangler writes about itself. */
  readonly directory: string;
  /** Values for names that `wrangler.toml` declares. */
  readonly vars: Readonly<Record<string, string>>;
  /** Show wrangler's output; else it is kept for the error. */
  readonly verbose: boolean;
}

/** Resolves with the Worker's URL once it is ready. */
export async function startWorker(parts: AsyncDisposableStack, settings: WorkerSettings): Promise<string> {
  const { directory, vars, verbose } = settings;
  // With an --env-file .dev.vars is left alone; what the environment says wins over both.
  const files = ["--config", config, "--env-file", devNull, "--persist-to", directory];
  const ports = ["--ip", "127.0.0.1", "--port", "0", "--inspector-port", "0"];
  const modes = ["--local", "--show-interactive-dev-session=false", "--log-level", verbose ? "info" : "error"];
  const output = verbose ? "inherit" : "pipe";
  const { child, ended } = startProgram(parts, process.execPath, [wrangler, "dev", ...files, ...ports, ...modes], {
    stdio: ["ignore", output, output, "ipc"],
    env: { ...process.env, ...quiet, ...vars, XDG_CONFIG_HOME: directory },
  });
  const ready = new Promise<string>((resolve) => {
    child.on("message", (message) => {
      const { event, ip, port } = JSON.parse(String(message));
      if (event === "DEV_SERVER_READY") resolve(`http://${ip}:${port}`);
    });
  });
  return Promise.race([ready, ended]);
}
