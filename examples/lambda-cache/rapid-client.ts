/**
 * Imported before Lambda's runtime client: stands in for its one native part, the HTTP transport to the Runtime API, which
 * takes minutes to compile. All else of `aws-lambda-ric` is what runs in Lambda.
 *
 * @module
 */
import { registerHooks } from "node:module";

const api = `http://${process.env.AWS_LAMBDA_RUNTIME_API}/2018-06-01/runtime/invocation`;

/** The answers under way: the runtime asks for the next invocation only when its last answer has arrived. */
let answering: Promise<unknown> = Promise.resolve();

function post(path: string, body: string, headers: Record<string, string> = {}): void {
  const sent = { method: "POST", body, headers: { "content-type": "application/json", ...headers } };
  answering = fetch(`${api}/${path}`, sent);
}

/** As the native part has it. */
export const initializeClient = (): void => {};

export const next = async (): Promise<{ bodyJson: string; headers: Record<string, string> }> => {
  await answering;
  const response = await fetch(`${api}/next`);
  return { bodyJson: await response.text(), headers: Object.fromEntries(response.headers) };
};

export const done = (id: string, body: string): void => post(`${id}/response`, body);

export const error = (id: string, body: string, cause = ""): void =>
  post(`${id}/error`, body, { "lambda-runtime-function-xray-error-cause": cause });

registerHooks({
  resolve: (specifier, context, nextResolve) =>
    specifier === "./rapid-client.node"
      ? { url: import.meta.url, format: "module", shortCircuit: true }
      : nextResolve(specifier, context),
});
