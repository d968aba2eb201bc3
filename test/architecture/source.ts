/**
 * What the rules need to know of a source file, read from its syntax tree.
 *
 * @module
 */
import { readdirSync, readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import { type ESTree, parseSync, Visitor } from "vite";

/** A file, as far as a rule can see it. */
export interface SourceFile {
  /** From the project's root, with forward slashes. */
  readonly path: string;
  readonly lines: number;
  /** What it imports or re-exports, types included, in order. */
  readonly imports: readonly string[];
  /** Packages that the examples in its doc comments import. */
  readonly exampleImports: readonly string[];
  readonly functions: readonly { readonly name: string; readonly lines: number }[];
  /**
   * Every name that is not the name of a property, or is one that a pattern takes out of an object; of each
   * `object.property` also ".property" and "object.property", and of those of `globalThis` "property".
   */
  readonly words: ReadonlySet<string>;
}

/** What stands for an import whose specifier is not a plain string. */
export const computedImport = "(computed)";

/** Reads one file's text. */
export function readSource(path: string, text: string): SourceFile {
  const { program, comments, errors } = parseSync(path, text);
  if (errors[0]) throw new Error(`Cannot parse ${path}: ${errors[0].message}`);
  const lineAt = lineCounter(text);
  const imports: string[] = [];
  const functions: { name: string; lines: number }[] = [];
  const names: { name: string; start: number }[] = [];
  const propertyNames = new Set<number>();
  const words: string[] = [];

  const addFunction = (node: { id?: { name: string } | null; start: number; end: number; body?: unknown }): void => {
    if (!node.body) return;
    const line = lineAt(node.start);
    functions.push({ name: node.id?.name ?? `the function at line ${line}`, lines: lineAt(node.end) - line + 1 });
  };
  const addSource = ({ source }: { source: ESTree.Expression | null }): void => {
    if (source === null) return;
    imports.push(textOf(source) ?? computedImport);
  };
  const addKey = (node: { key: { start: number }; computed?: boolean }): void => {
    if (!node.computed) propertyNames.add(node.key.start);
  };

  new Visitor({
    ImportDeclaration: addSource,
    ExportAllDeclaration: addSource,
    ExportNamedDeclaration: addSource,
    ImportExpression: addSource,
    TSImportType: addSource,
    TSExternalModuleReference: ({ expression }) => addSource({ source: expression }),
    FunctionDeclaration: addFunction,
    FunctionExpression: addFunction,
    ArrowFunctionExpression: addFunction,
    MemberExpression({ object, property, computed }) {
      if (!computed) propertyNames.add(property.start);
      const name = !computed && property.type === "Identifier" ? property.name : textOf(property);
      const owner = ownName(object);
      if (name === undefined) return;
      words.push(`.${name}`, `${owner}.${name}`);
      if (owner === "globalThis") words.push(name);
    },
    Property: (node) => node.shorthand || addKey(node),
    ObjectPattern({ properties }) {
      for (const part of properties) {
        if (part.type === "Property" && part.key.type === "Identifier") words.push(part.key.name);
      }
    },
    MethodDefinition: addKey,
    PropertyDefinition: addKey,
    TSPropertySignature: addKey,
    TSMethodSignature: addKey,
    TSQualifiedName: ({ right }) => propertyNames.add(right.start),
    Identifier: ({ name, start }) => names.push({ name, start }),
  }).visit(program);

  words.push(...names.filter(({ start }) => !propertyNames.has(start)).map(({ name }) => name));
  const docs = comments.filter(({ type, value }) => type === "Block" && value.startsWith("*"));
  return {
    path,
    lines: text.split("\n").length - (text.endsWith("\n") ? 1 : 0),
    imports: [...imports, ...comments.filter(({ value }) => /^\/ *<reference/.test(value)).map(({ value }) => value)],
    exampleImports: docs.flatMap(({ value }) => [...value.matchAll(/from "([^"]+)"/g)].map(([, name = ""]) => name)),
    functions,
    words: new Set(words),
  };
}

/** Reads every TypeScript file under the folders that exist. */
export function sourcesUnder(root: string, folders: readonly string[]): SourceFile[] {
  return folders.flatMap((folder) => {
    if (!statSync(join(root, folder), { throwIfNoEntry: false })) return [];
    return readdirSync(join(root, folder), { recursive: true, encoding: "utf8" })
      .map((path) => `${folder}/${path.replaceAll("\\", "/")}`)
      .filter((path) => path.endsWith(".ts") && !/(^|\/)(node_modules|dist|\.wrangler)\//.test(path))
      .sort()
      .map((path) => readSource(path, readFileSync(join(root, path), "utf8")));
  });
}

/** The name of a variable, or the last one of a chain of properties. */
function ownName(node: ESTree.Expression | ESTree.Super): string | undefined {
  if (node.type === "Identifier") return node.name;
  if (node.type === "MemberExpression") return node.property.type === "Identifier" ? node.property.name : undefined;
  if (node.type === "TSAsExpression" || node.type === "ParenthesizedExpression") return ownName(node.expression);
  return undefined;
}

function textOf(node: { readonly type: string; readonly value?: unknown }): string | undefined {
  return node.type === "Literal" && typeof node.value === "string" ? node.value : undefined;
}

function lineCounter(text: string): (offset: number) => number {
  const starts = [...text.matchAll(/\n/g)].map(({ index }) => index);
  return (offset) => starts.filter((at) => at < offset).length + 1;
}
