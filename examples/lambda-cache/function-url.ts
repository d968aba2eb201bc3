/**
 * A function URL before some environments: a request becomes an event, which waits for an environment that is free, and
 * what comes of it becomes the response.
 *
 * @module
 */
import { serve } from "../stampede/parts.ts";
import { type Environment, type EnvironmentSettings, startEnvironment } from "./environment.ts";

/** What a function behind a URL gives back. */
interface FunctionResponse {
  readonly statusCode: number;
  readonly headers: Record<string, string>;
  readonly body: string;
  readonly isBase64Encoded: boolean;
}

/** Starts so many environments, each of which handles one event at a time, and returns their one URL. */
export async function startFunction(
  parts: AsyncDisposableStack,
  settings: EnvironmentSettings,
  count: number,
): Promise<string> {
  const free = await Promise.all(Array.from({ length: count }, () => startEnvironment(parts, settings)));
  const waiting: ((environment: Environment) => void)[] = [];
  const take = (): Promise<Environment> => {
    const environment = free.pop();
    return environment ? Promise.resolve(environment) : new Promise((resolve) => waiting.push(resolve));
  };
  const giveBack = (environment: Environment): void => {
    const next = waiting.shift();
    if (next) next(environment);
    else free.push(environment);
  };
  return serve(parts, async (request) => {
    const environment = await take();
    try {
      return toResponse((await environment.invoke(await eventOf(request))) as FunctionResponse);
    } catch (error) {
      console.error(error);
      return Response.json({ message: "Internal Server Error" }, { status: 502 });
    } finally {
      giveBack(environment.isOver() ? await startEnvironment(parts, settings) : environment);
    }
  });
}

/** The event of a request, in version 2.0 of its format. */
export async function eventOf(request: Request): Promise<object> {
  const { pathname, search, host } = new URL(request.url);
  const http = { method: request.method, path: pathname, protocol: "HTTP/1.1", sourceIp: "127.0.0.1", userAgent: "" };
  return {
    version: "2.0",
    routeKey: "$default",
    rawPath: pathname,
    rawQueryString: search.slice(1),
    headers: Object.fromEntries(request.headers),
    requestContext: { domainName: host, stage: "$default", http },
    body: await request.text(),
    isBase64Encoded: false,
  };
}

function toResponse({ statusCode, headers, body, isBase64Encoded }: FunctionResponse): Response {
  const content = isBase64Encoded ? Uint8Array.from(atob(body), (letter) => letter.charCodeAt(0)) : body;
  return new Response([204, 304].includes(statusCode) ? null : content, { status: statusCode, headers });
}
