import { readdirSync } from "node:fs";
import { expect, test } from "vitest";
import { snippetsOf } from "../docs/snippets.ts";
import { textOf } from "../support/text-of.ts";

const page = "docs/fencing.md";
const shown = snippetsOf(page, textOf(page)).map(({ code }) => code);
const tested = readdirSync(new URL(".", import.meta.url)).flatMap(
  (file) => /^([\w-]+)\.test\.ts$/.exec(file)?.slice(1) ?? [],
);
const recipes = ["durable-object", "r2", "s3", "sql"];

test.each(recipes)("the page on fencing shows the recipe %s, word for word, and it has a test", (name) => {
  expect(shown).toContain(textOf(`test/recipes/${name}.ts`));
  expect(tested).toContain(name);
});

test("the statement that the page gives for SQL is the one that the recipe prepares", () => {
  const [, statement = "missing"] = /^```sql\n(.+)\n```$/m.exec(textOf(page)) ?? [];
  expect(textOf("test/recipes/sql.ts")).toContain(statement);
});
