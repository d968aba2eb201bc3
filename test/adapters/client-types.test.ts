import { execFile } from "node:child_process";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { expect, test } from "vitest";

const pathOf = (relative: string): string => fileURLToPath(new URL(relative, import.meta.url));
const arguments_ = [pathOf("../../node_modules/typescript/bin/tsc"), "-p", pathOf("../fixtures/client-types")];

test("K03 the clients of ioredis 5 and 6, redis 5 and 6 and @upstash/redis, and the meters of OpenTelemetry and prom-client, are taken without a cast", async () => {
  const compiled = promisify(execFile)(process.execPath, arguments_).catch((error: unknown) => error);
  expect(await compiled).toMatchObject({ stdout: "", stderr: "" });
}, 60_000);
