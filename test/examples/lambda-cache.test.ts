/** The Lambda example: its template, its bundle, and its function in the real runtime client. */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { App, Stack } from "aws-cdk-lib";
import { CfnInclude } from "aws-cdk-lib/cloudformation-include";
import { afterAll, describe, expect, test } from "vitest";
import { bundle, startEnvironment } from "../../examples/lambda-cache/environment.ts";
import { eventOf } from "../../examples/lambda-cache/function-url.ts";
import { describeRedis, listen, startRestRedis } from "../support/redis.ts";

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

  test("is valid, for nodejs24.x, and asks for what the function reads", () => {
    const { Properties } = synthesized(text).Resources.Products;
    expect(Properties).toMatchObject({ Runtime: "nodejs24.x", Handler: "index.handler", CodeUri: "dist/" });
    const read = readFileSync(join(example, "handler.ts"), "utf8").match(/\b[A-Z_]{5,}(?=[:, ].*process\.env)/g);
    expect(Object.keys(Properties.Environment.Variables).sort()).toEqual(read?.sort());
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
});

describeRedis("the function, in aws-lambda-ric", () => {
  test("a build that takes too long for its invocation is given up in time to say so, and another environment builds", async () => {
    await using parts = new AsyncDisposableStack();
    const redis = await startRestRedis();
    parts.defer(redis.stop);
    // A shop that leaves the first question unanswered.
    let asked = 0;
    const shop = createServer((_, response) => {
      asked += 1;
      if (asked > 1) response.end('{"id":"1","version":1}');
    });
    const port = await listen(shop);
    parts.defer(() => {
      shop.close();
      shop.closeAllConnections();
    });
    await bundle(new URL("../../examples/lambda-cache/handler.ts", import.meta.url), directory);
    const variables = {
      UPSTASH_REDIS_REST_URL: redis.url,
      UPSTASH_REDIS_REST_TOKEN: redis.token,
      ORIGIN_URL: `http://127.0.0.1:${port}`,
    };
    const [first, second] = await Promise.all([
      startEnvironment(parts, { taskRoot: directory, variables, timeoutMs: 3_000 }),
      startEnvironment(parts, { taskRoot: directory, variables, timeoutMs: 30_000 }),
    ]);
    const get = (path: string) => eventOf(new Request(`http://function.example${path}`));

    expect(await first.invoke(await get("/health"))).toMatchObject({ statusCode: 200, body: '{"ok":true}' });
    expect(await first.invoke(await get("/products/1"))).toMatchObject({
      statusCode: 503,
      headers: { "retry-after": "1" },
      body: '{"error":"build-failed"}',
    });
    expect(first.isOver()).toBe(false);
    await expect
      .poll(async () => second.invoke(await get("/products/1")), { timeout: 20_000 })
      .toMatchObject({ statusCode: 200, headers: { "x-cache": "built" }, body: '{"id":"1","version":1}' });
    expect(asked).toBe(2);
  }, 30_000);
});
