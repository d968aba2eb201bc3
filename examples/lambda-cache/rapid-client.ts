/**
 * Imported before Lambda's runtime client: stands in for its one native part, the HTTP transport to the Runtime API, which
 * takes minutes to compile. All else of `aws-lambda-ric` is what runs in Lambda.
 *
 * @module
 */
import { Agent, type IncomingHttpHeaders, request } from "node:http";
import { registerHooks } from "node:module";
import { text } from "node:stream/consumers";

const api = `http://${process.env.AWS_LAMBDA_RUNTIME_API}/2018-06-01/runtime/invocation`;
const agent = new Agent({ keepAlive: true });

interface Answer {
  readonly bodyJson: string;
  readonly headers: IncomingHttpHeaders;
}

// Not fetch, which gives up after five minutes: an environment may wait for its next invocation for hours.
function call(method: string, path: string, body = "", headers: Record<string, string> = {}): Promise<Answer> {
  return new Promise((resolve, reject) => {
    const sent = request(`${api}/${path}`, { method, agent, headers }, (response) => {
      text(response).then((bodyJson) => resolve({ bodyJson, headers: response.headers }), reject);
    });
    sent.once("error", reject).end(body);
  });
}

/** The answer under way: the runtime asks for its next invocation only when the last answer has arrived. */
let answering: Promise<unknown> = Promise.resolve();

export const initializeClient = (): void => {};

export const next = async (): Promise<Answer> => {
  await answering;
  return call("GET", "next");
};

export const done = (id: string, body: string): void => {
  answering = call("POST", `${id}/response`, body);
};

export const error = (id: string, body: string, cause = ""): void => {
  answering = call("POST", `${id}/error`, body, { "lambda-runtime-function-xray-error-cause": cause });
};

registerHooks({
  resolve: (specifier, context, nextResolve) =>
    specifier === "./rapid-client.node"
      ? { url: import.meta.url, format: "module", shortCircuit: true }
      : nextResolve(specifier, context),
});
