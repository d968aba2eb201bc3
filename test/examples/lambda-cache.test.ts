/** The Lambda example: its template, its bundle, and its function in the real runtime client. */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { App, Stack } from "aws-cdk-lib";
import { CfnInclude } from "aws-cdk-lib/cloudformation-include";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { bundle, type Environment, startEnvironment } from "../../examples/lambda-cache/environment.ts";
import { eventOf } from "../../examples/lambda-cache/function-url.ts";
import { serve } from "../../examples/stampede/parts.ts";
import { describeRedis, startRestRedis } from "../support/redis.ts";

const example = fileURLToPath(new URL("../../examples/lambda-cache", import.meta.url));
const directory = mkdtempSync(join(tmpdir(), "leasehold-lambda-"));
afterAll(() => rmSync(directory, { recursive: true, force: true }));

describe("template.yaml", () => {
  const text = readFileSync(join(example, "template.yaml"), "utf8");

  /** What the CDK makes of a template: its types, its required properties and theirs are checked. */
  function synthesized(template: string) {
    const templateFile = join(directory, "template.yaml");
    writeFileSync(templateFile, template);
    const context = { "@aws-cdk/core:validateAgainstDefaultRules": true };
    const app = new App({ context, outdir: join(directory, "cdk.out"), analyticsReporting: false });
    const stack = new Stack(app, "Example");
    new CfnInclude(stack, "Template", { templateFile });
    return app.synth().getStackByName(stack.stackName).template;
  }

  const resources = {
    Products: {
      Type: "AWS::Serverless::Function",
      Properties: {
        Runtime: "nodejs24.x",
        Architectures: ["arm64"],
        CodeUri: "dist/",
        Handler: "index.handler",
        MemorySize: 256,
        Timeout: 15,
        Environment: {
          Variables: {
            UPSTASH_REDIS_REST_URL: "{{resolve:secretsmanager:leasehold-cache:SecretString:url}}",
            UPSTASH_REDIS_REST_TOKEN: "{{resolve:secretsmanager:leasehold-cache:SecretString:token}}",
            ORIGIN_URL: { Ref: "OriginUrl" },
          },
        },
        FunctionUrlConfig: { AuthType: "AWS_IAM" },
      },
    },
  };

  test("is valid, and comes to the one function that the README describes, and to nothing else", () => {
    const { Transform, Parameters, Resources } = synthesized(text);
    expect(Transform).toBe("AWS::Serverless-2016-10-31");
    expect(Parameters.OriginUrl).toMatchObject({ Type: "String", Default: "" });
    expect(Resources).toEqual(resources);
  });

  test("asks for what the function reads", () => {
    const read = readFileSync(join(example, "handler.ts"), "utf8").match(/\b[A-Z_]{5,}(?=[:, ].*process\.env)/g);
    expect(Object.keys(resources.Products.Properties.Environment.Variables).sort()).toEqual(read?.sort());
  });

  test.each([
    ["Handler: index", "Handlr: index", "Handler"],
    ["Timeout: 15", "Timeout: soon", "should be a number"],
    ["AWS::Serverless::Function", "AWS::Serverless::Functon", "AWS::Serverless::Functon"],
    ["!Ref OriginUrl", "!Ref Origin", "Origin"],
  ])("with %s as %s is refused", (right, wrong, reason) => {
    expect(text).toContain(right);
    expect(() => synthesized(text.replace(right, wrong))).toThrow(reason);
  });

  // What the CDK does not know of it hands on, so that the comparison above sees it.
  test.each([
    ["Runtime: nodejs24.x", "Runtime: nodejs99.x"],
    ["[arm64]", "[arm65]"],
    ["MemorySize: 256", "MemorySise: 256"],
    ["Timeout: 15", "Timeout: 15\n      Tracng: Active"],
    ["AuthType: AWS_IAM", "AuthType: NONE"],
    ["AuthType: AWS_IAM", "AuthType: AWS_IAM\n        InvokeMod: BUFFERED"],
    ["    Properties:", "    Metadata: { BuildMethod: esbuild }\n    Properties:"],
  ])("with %s as %s comes to something else", (right, wrong) => {
    expect(text).toContain(right);
    expect(synthesized(text.replace(right, wrong)).Resources).not.toEqual(resources);
  });
});

interface Answer {
  readonly statusCode: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
}

describeRedis("the function, in aws-lambda-ric", () => {
  const long = 60_000;
  const patient = { timeout: 20_000 };
  beforeAll(() => bundle(new URL("lambda-observed.ts", import.meta.url), directory));

  /** A Redis, a shop that answers when the test says so, and environments between them. */
  async function setUp(parts: AsyncDisposableStack) {
    const redis = await startRestRedis();
    parts.defer(redis.stop);
    const asked: ((response: Response) => void)[] = [];
    const ORIGIN_URL = await serve(parts, () => new Promise((answer) => void asked.push(answer)));
    /** Has the shop answer a question, once it has been asked. */
    const answer = async (question: number, response: Response): Promise<void> => {
      await expect.poll(() => asked.length, patient).toBeGreaterThanOrEqual(question);
      asked[question - 1]?.(response);
    };
    const variables = {
      UPSTASH_REDIS_REST_URL: redis.url,
      UPSTASH_REDIS_REST_TOKEN: redis.token,
      ORIGIN_URL,
    };
    return {
      redis,
      asked,
      entry: () => redis.connection.hgetall("cache:{product:1}"),
      start: (timeoutMs: number) => startEnvironment(parts, { taskRoot: directory, variables, timeoutMs }),
      answer,
      sell: (question: number, version: number) => answer(question, Response.json({ id: "1", version })),
    };
  }

  /** Whatever the answer is, nothing goes on behind it. */
  async function request(environment: Environment, path = "/products/1", method = "GET"): Promise<Answer> {
    const event = await eventOf(new Request(`http://function.example${path}`, { method }));
    const { pending, ...answer } = (await environment.invoke(event)) as Answer & { readonly pending: string[] };
    expect(pending, `pending after ${method} ${path}: ${answer.statusCode}`).toEqual([]);
    return answer;
  }

  const product = (version: number, cache: string) => ({
    statusCode: 200,
    headers: { "x-cache": cache },
    body: JSON.stringify({ id: "1", version }),
  });

  test("a build that takes too long for its invocation is given up in time to say so, and another environment builds", async () => {
    await using parts = new AsyncDisposableStack();
    const { asked, start, sell } = await setUp(parts);
    const [first, second] = await Promise.all([start(3_000), start(long)]);

    expect(await request(first, "/health")).toMatchObject({ statusCode: 200, body: '{"ok":true}' });
    expect(await request(first)).toMatchObject({
      statusCode: 503,
      headers: { "retry-after": "1" },
      body: '{"error":"build-failed"}',
    });
    expect(first.isOver()).toBe(false);
    const sold = sell(2, 1);
    await expect.poll(() => request(second), patient).toMatchObject(product(1, "built"));
    await sold;
    expect(asked).toHaveLength(2);
  }, 60_000);

  test("a lease is no longer than its invocation: then another environment takes over from one that was killed", async () => {
    await using parts = new AsyncDisposableStack();
    const { asked, entry, start, sell } = await setUp(parts);
    const timeoutMs = 8_000;
    const [first, second] = await Promise.all([start(timeoutMs), start(long)]);
    const killed = expect(request(first)).rejects.toThrow("SIGKILL");
    await expect.poll(() => asked.length, patient).toBe(1);
    process.kill(first.pid, "SIGKILL");
    await killed;

    // As elected: a renewal, which comes when 60 % of it have passed, would grant as much again.
    const { ls: electedAt, lu: overAt } = await entry();
    const answerMs = 500;
    expect(Number(overAt) - Number(electedAt)).toBeLessThanOrEqual(timeoutMs - answerMs);
    const taken = request(second);
    await sell(2, 1);
    expect(await taken).toMatchObject(product(1, "built"));
    expect(Number((await entry()).ls)).toBeGreaterThanOrEqual(Number(overAt));
    expect(asked).toHaveLength(2);
  }, 60_000);

  type Stage = Awaited<ReturnType<typeof setUp>>;
  test.each<[string, (stage: Stage, other: Environment) => Promise<unknown>]>([
    // Not by waiting: the builder's own timers would be due too then, and end its build before it can commit.
    ["lease ended", ({ redis }) => redis.connection.hset("cache:{product:1}", "lu", 1)],
    ["product was invalidated", (_, other) => request(other, "/products/1", "DELETE")],
    ["entry was evicted", ({ redis }) => redis.connection.del("cache:{product:1}")],
  ])(
    "frozen in a build while its %s and another built: its late value is refused, and it answers with the newer",
    async (_, end) => {
      await using parts = new AsyncDisposableStack();
      const stage = await setUp(parts);
      const { redis, asked, entry, start, sell } = stage;
      const [first, second] = await Promise.all([start(long), start(long)]);
      const late = request(first);
      await expect.poll(() => asked.length, patient).toBe(1);
      process.kill(first.pid, "SIGSTOP");

      await end(stage, second);
      const newer = request(second);
      await sell(2, 2);
      expect(await newer).toMatchObject(product(2, "built"));
      const stored = await entry();
      const sent = redis.requests.length;

      await sell(1, 1);
      process.kill(first.pid, "SIGCONT");
      expect(await late).toMatchObject({ statusCode: 200, body: product(2, "").body });
      expect(redis.requests.length - sent, "the refused commit").toBe(1);
      expect(await entry()).toEqual(stored);
      expect(await request(second)).toMatchObject(product(2, "hit"));
      expect(asked).toHaveLength(2);
    },
    60_000,
  );

  test("nothing is kept across a freeze: the next answer is what Redis has, and asks nothing but for itself", async () => {
    await using parts = new AsyncDisposableStack();
    const { redis, asked, start, answer, sell } = await setUp(parts);
    const [first, second] = await Promise.all([start(long), start(long)]);
    let version = 1;
    /** Changes the product while the first environment is frozen. */
    const change = async (): Promise<void> => {
      version += 1;
      await request(second, "/products/1", "DELETE");
      const built = request(second);
      await sell(asked.length + 1, version);
      expect(await built).toMatchObject(product(version, "built"));
    };

    for (const [sold, statusCode] of [
      [Response.json({ id: "1", version: 1 }), 200],
      [new Response("", { status: 404 }), 404],
      [new Response("", { status: 500 }), 503],
    ] as const) {
      await request(second, "/products/1", "DELETE");
      const answered = request(first);
      await answer(asked.length + 1, sold);
      expect(await answered).toMatchObject({ statusCode });
      await change();

      const all = { redis: redis.requests.length, shop: asked.length };
      expect(await request(first, "/health")).toMatchObject({ statusCode: 200 });
      expect({ redis: redis.requests.length, shop: asked.length }).toEqual(all);
      expect(await request(first)).toMatchObject(product(version, "hit"));
      expect({ redis: redis.requests.length, shop: asked.length }).toEqual({ ...all, redis: all.redis + 1 });
    }
  }, 60_000);

  test("nothing is pending after an invocation that has waited for another's build", async () => {
    await using parts = new AsyncDisposableStack();
    const { redis, asked, start, sell } = await setUp(parts);
    const [first, second] = await Promise.all([start(long), start(long)]);
    const built = request(first);
    await expect.poll(() => asked.length, patient).toBe(1);
    const waited = request(second);
    await expect.poll(() => redis.requests.length, patient).toBeGreaterThan(1);
    await sell(1, 1);
    expect([await built, await waited]).toMatchObject([product(1, "built"), product(1, "waited")]);
    expect(asked).toHaveLength(1);
  }, 60_000);
});
