/**
 * What goes over the wire of a REST server: commands come as JSON, and replies go in base64 to those who ask for it.
 *
 * @module
 */
import type { Reply } from "../src/command.ts";

/** A command as a body may have it. */
export type WireCommand = readonly (string | number | boolean)[];

const scalars = ["string", "number", "boolean"];

/** Whether a body, or an element of one, is a command. */
export function isCommand(body: unknown): body is WireCommand {
  return Array.isArray(body) && typeof body[0] === "string" && body.every((part) => scalars.includes(typeof part));
}

/** Every string in a reply, except "OK", which Upstash leaves as it is. */
export function base64(reply: Reply): Reply {
  if (typeof reply === "object" && reply !== null) return reply.map(base64);
  if (typeof reply !== "string" || reply === "OK") return reply;
  return btoa(Array.from(new TextEncoder().encode(reply), (byte) => String.fromCharCode(byte)).join(""));
}
