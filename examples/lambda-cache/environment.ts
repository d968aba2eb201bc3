/**
 * An execution environment as Lambda keeps it: the real runtime client in a process of its own, before a Runtime API that
 * hands it one invocation at a time. Between two invocations the process is frozen.
 *
 * @module
 */
import { fileURLToPath } from "node:url";
import { build } from "esbuild";
import { Hono } from "hono";
import { serve, startProgram } from "../stampede/parts.ts";

const runtimeClient = fileURLToPath(import.meta.resolve("aws-lambda-ric"));
const transport = new URL("rapid-client.ts", import.meta.url).href;

/** What an environment is made of. */
export interface EnvironmentSettings {
  /** Where the bundle is, as `index.mjs`. */
  readonly taskRoot: string;
  /** The function's own variables. */
  readonly variables: Readonly<Record<string, string>>;
  /** How long an invocation may take, in ms. */
  readonly timeoutMs: number;
  /** Show what the function writes. */
  readonly verbose?: boolean;
}

/** An environment, frozen unless it handles an event. */
export interface Environment {
  readonly pid: number;
  /** Whether the process has ended. */
  isOver(): boolean;
  /**
   * Thaws it, has it handle an event, and freezes it again. Rejects with what the function threw, and when the invocation
   * takes too long, or the process ends: then the environment is no more.
   */
  invoke(event: unknown): Promise<unknown>;
}

/** Bundles a function as the README does. */
export async function bundle(entry: URL, taskRoot: string): Promise<void> {
  await build({
    entryPoints: [fileURLToPath(entry)],
    outfile: `${taskRoot}/index.mjs`,
    bundle: true,
    platform: "node",
    target: "node24",
    format: "esm",
    conditions: ["leasehold-source"], // here the package is its own source
  });
}

/** Starts an environment and resolves once it has loaded the function and is frozen. */
export async function startEnvironment(
  parts: AsyncDisposableStack,
  { taskRoot, variables, timeoutMs, verbose = false }: EnvironmentSettings,
): Promise<Environment> {
  const invocations = mailbox<Response>();
  const outcomes = mailbox<{ readonly response: unknown } | { readonly error: unknown }>();
  const frozen = mailbox<true>();
  const initErrors = mailbox<object>();

  const api = new Hono().basePath("/2018-06-01/runtime");
  api.get("/invocation/next", () => {
    program.child.kill("SIGSTOP");
    frozen.put(true);
    return invocations.take();
  });
  api.post("/invocation/:id/response", async (c) => {
    outcomes.put({ response: await c.req.json() });
    return c.body(null, 202);
  });
  api.post("/invocation/:id/error", async (c) => {
    outcomes.put({ error: await c.req.json() });
    return c.body(null, 202);
  });
  api.post("/init/error", async (c) => {
    initErrors.put(await c.req.json());
    return c.body(null, 202);
  });
  const { host } = new URL(await serve(parts, api.fetch));

  const program = startProgram(parts, process.execPath, ["--import", transport, runtimeClient, "index.handler"], {
    cwd: taskRoot,
    stdio: ["ignore", verbose ? "inherit" : "pipe", verbose ? "inherit" : "pipe"],
    env: { PATH: process.env.PATH, ...variables, ...variablesOfLambda(taskRoot, host) },
  });
  const kill = (): void => void program.child.kill("SIGKILL");
  parts.defer(kill); // what is frozen heeds no other signal

  await Promise.race([frozen.take(), initErrors.take().then(thrown), program.ended]);
  let idle: Promise<unknown> = Promise.resolve();
  return {
    pid: program.child.pid ?? 0,
    isOver: () => program.child.exitCode !== null || program.child.signalCode !== null,
    async invoke(event) {
      await Promise.race([idle, program.ended]);
      program.child.kill("SIGCONT");
      invocations.put(invocation(event, timeoutMs));
      idle = frozen.take();
      const late = setTimeout(kill, timeoutMs);
      const outcome = await Promise.race([outcomes.take(), program.ended]).finally(() => clearTimeout(late));
      return "response" in outcome ? outcome.response : thrown(outcome);
    },
  };
}

function invocation(event: unknown, timeoutMs: number): Response {
  const headers = {
    "lambda-runtime-aws-request-id": crypto.randomUUID(),
    "lambda-runtime-deadline-ms": String(Date.now() + timeoutMs),
    "lambda-runtime-invoked-function-arn": "arn:aws:lambda:us-east-1:000000000000:function:products",
    "lambda-runtime-trace-id": "Root=1-0-0",
  };
  return Response.json(event, { headers });
}

function variablesOfLambda(taskRoot: string, api: string): Record<string, string> {
  return {
    AWS_LAMBDA_RUNTIME_API: api,
    LAMBDA_TASK_ROOT: taskRoot,
    _HANDLER: "index.handler",
    AWS_EXECUTION_ENV: "AWS_Lambda_nodejs24.x",
    AWS_REGION: "us-east-1",
    AWS_LAMBDA_FUNCTION_NAME: "products",
    AWS_LAMBDA_FUNCTION_VERSION: "$LATEST",
    AWS_LAMBDA_FUNCTION_MEMORY_SIZE: "256",
    AWS_LAMBDA_LOG_GROUP_NAME: "/aws/lambda/products",
    AWS_LAMBDA_LOG_STREAM_NAME: "local",
  };
}

function thrown(outcome: object): never {
  throw new Error(`The function failed: ${JSON.stringify(outcome)}`);
}

/** Holds what has come until somebody takes it. One taker at a time. */
function mailbox<T>() {
  const values: T[] = [];
  let taker: ((value: T) => void) | undefined;
  return {
    put(value: T): void {
      if (taker) taker(value);
      else values.push(value);
      taker = undefined;
    },
    take(): Promise<T> {
      const [value] = values.splice(0, 1);
      return value === undefined ? new Promise((resolve) => (taker = resolve)) : Promise.resolve(value);
    },
  };
}
