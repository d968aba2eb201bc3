/**
 * The function of the Lambda example, which says beside each answer what it leaves pending: what a freeze would hold.
 *
 * @module
 */
import { subscribe } from "node:diagnostics_channel";
import { setImmediate as nextTurn } from "node:timers/promises";
import type { LambdaContext, LambdaEvent } from "hono/aws-lambda";
import { handler as example } from "../../examples/lambda-cache/handler.ts";

const open = new Map<object, string>();
interface Message {
  readonly request: { readonly origin: string };
}
subscribe("undici:request:create", (message) => {
  const { request } = message as Message;
  open.set(request, `request to ${request.origin}`);
});
for (const end of ["undici:request:trailers", "undici:request:error"]) {
  subscribe(end, (message) => open.delete((message as Message).request));
}

export async function handler(event: LambdaEvent, context: LambdaContext): Promise<object> {
  const answer = await example(event, context);
  await nextTurn(); // what was begun and not awaited may only now be under way
  const timers = process.getActiveResourcesInfo().filter((type) => /^(Timeout|Immediate)$/.test(type));
  return { ...answer, pending: [...timers, ...open.values()] };
}
