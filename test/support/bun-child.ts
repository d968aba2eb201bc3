/**
 * Run by Bun: executes what `bun-redis.ts` asks for over its channel, through `bunClient` and Bun's own Redis client.
 *
 * @module
 */
import { RedisClient } from "bun";
import { bunClient } from "leasehold/bun";
import type { Answer, Question } from "./bun-redis.ts";

const [url = "", options = "{}"] = process.argv.slice(2);
const redis = new RedisClient(url, JSON.parse(options));
const client = bunClient(redis);
const ofEveryError = ["line", "column", "originalLine", "originalColumn", "sourceURL"];
const underWay = new Map<number, AbortController>();

async function answer(question: Question): Promise<Answer> {
  const { id } = question;
  if ("abort" in question) {
    underWay.get(id)?.abort("the reason");
    return { id };
  }
  if ("connect" in question) {
    await redis.connect();
    return { id, reply: null };
  }
  const controller = new AbortController();
  underWay.set(id, controller);
  if (question.aborted) controller.abort("the reason");
  try {
    return { id, reply: await client.execute(question.command, { signal: controller.signal }) };
  } catch (error) {
    if (error === "the reason") return { id, aborted: true };
    // All that the error carries, hidden or not: what it may not show is checked on the other side.
    const names = Object.getOwnPropertyNames(error).filter((name) => !ofEveryError.includes(name));
    const own = Object.fromEntries(names.map((name) => [name, String(Object(error)[name])]));
    return { id, error: { ...own, name: Object(error).name } };
  } finally {
    underWay.delete(id);
  }
}

process.on("message", async (question: Question) => {
  const given = await answer(question);
  if (!("abort" in question)) process.send?.(given);
});
process.on("disconnect", () => process.exit(0));
process.send?.({ id: 0, reply: null } satisfies Answer);
