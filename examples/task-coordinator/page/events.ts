/**
 * Reads server-sent events from a response, since EventSource cannot send a token.
 *
 * @module
 */

/** One event. */
export interface ServerEvent {
  readonly event: string;
  readonly data: string;
}

/** The events of a stream, in order, until it ends. */
export async function* eventsIn(body: ReadableStream<Uint8Array>): AsyncGenerator<ServerEvent> {
  const reader = body.getReader();
  const decoder = new TextDecoder();
  let rest = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    rest += decoder.decode(value, { stream: true });
    const blocks = rest.split("\n\n");
    rest = blocks.pop() ?? "";
    for (const block of blocks.filter((lines) => /^(event|data):/m.test(lines))) yield eventOf(block);
  }
}

function eventOf(block: string): ServerEvent {
  const lines = block.split("\n").map((line) => /^(\w+): ?(.*)$/.exec(line) ?? []);
  const textOf = (name: string): string[] => lines.flatMap(([, field, text = ""]) => (field === name ? [text] : []));
  return { event: textOf("event").at(-1) ?? "message", data: textOf("data").join("\n") };
}
