/** The page in a real Chromium. With SCREENSHOTS=1 it also takes those that the documentation shows. */
import { existsSync, readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { fileURLToPath } from "node:url";
import { type Browser, type BrowserContextOptions, chromium, type Page } from "playwright-core";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from "vitest";
import type { Queue } from "../../../examples/task-coordinator/queue.ts";
import { type Served, serveMonitor } from "../../../examples/task-coordinator/serve.ts";
import { describeRedis, redisInstalled } from "../../support/redis.ts";
import { begin, endLease, fieldOf, lockTask, placesOf, useLab } from "./lab.ts";

const executablePath = "/usr/bin/chromium";
const installed = existsSync(executablePath);
const patient = { timeout: 10_000 };
const axeSource = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

if (installed || !redisInstalled) describeRedis("the page, in Chromium", suite);
else if (process.env.CI === "true") {
  test("the page, in Chromium", () => expect.fail(`Cannot run this suite as ${executablePath} is missing`));
} else describe.skip("the page, in Chromium (skipped: chromium is not installed)", suite);

function suite(): void {
  const lab = useLab();
  let browser: Browser;
  let queue: Queue;
  let served: Served;
  let troubles: string[];

  beforeAll(async () => {
    browser = await chromium.launch({ executablePath, args: ["--no-sandbox", "--disable-dev-shm-usage"] });
  }, 60_000);
  afterAll(() => browser?.close());
  beforeEach(async () => {
    queue = lab.queue();
    troubles = [];
    served = await serveMonitor(queue, { everyMs: 50 });
  });
  afterEach(async () => {
    for (const context of browser.contexts()) await context.close();
    await served.close();
    expect(troubles).toEqual([]);
  });

  /** Opens the page. Whatever it has to say against itself fails the test. */
  async function open(options: BrowserContextOptions = {}, url = served.url): Promise<Page> {
    const context = await browser.newContext({
      viewport: { width: 1_100, height: 710 },
      reducedMotion: "reduce",
      ...options,
    });
    const page = await context.newPage();
    page.on("console", (message) => message.type() === "error" && troubles.push(message.text()));
    page.on("pageerror", (error) => troubles.push(error.message));
    await page.goto(url);
    return page;
  }

  /** A bit of everything. */
  async function fill(): Promise<void> {
    await queue.enqueue({ to: "a@example.com" }, { id: "mail-17", maxAttempts: 1 });
    const mail = await begin(queue, "worker-1");
    await mail.run.fail("The mail server answered 451: try again later", 0);
    await mail.lease.release();
    await queue.enqueue({}, { id: "invoice-41" });
    const invoice = await begin(queue, "worker-2");
    await invoice.run.complete({ pages: 3 }, 60_000);
    await invoice.lease.release();
    await queue.enqueue({}, { id: "thumbnails-8" });
    await begin(queue, "worker-3");
    await endLease(queue, "thumbnails-8");
    await queue.recover("thumbnails-8");
    const thumbnails = await begin(queue, "worker-1");
    await thumbnails.run.progress(65, "130 of 200 pictures");
    await queue.enqueue({}, { id: "report-2026-11", priority: "high" });
    const report = await begin(queue, "worker-2");
    await report.run.progress(20, "reading the ledger");
    await queue.enqueue({ database: "orders" }, { id: "backup-30", priority: "low" });
    await queue.enqueue({ customer: 1007 }, { id: "invoice-42" });
    await queue.enqueue({ customer: 1003 }, { id: "reminder-5", delayMs: 3_600_000 });
  }

  const shows = (page: Page, list: string, text: string): Promise<void> =>
    page.locator(`#${list} li`, { hasText: text }).first().waitFor(patient);

  async function accessibilityFindings(page: Page): Promise<string[]> {
    await page.evaluate(axeSource); // in the test's own world: the page's policy lets no other script in
    const { violations } = (await page.evaluate("axe.run()")) as {
      violations: { id: string; nodes: { html: string }[] }[];
    };
    return violations.flatMap(({ id, nodes }) => nodes.map(({ html }) => `${id}: ${html}`));
  }

  async function screenshot(page: Page, name: string): Promise<void> {
    if (process.env.SCREENSHOTS !== "1") return;
    const path = fileURLToPath(new URL(`../../../docs/images/${name}.png`, import.meta.url));
    await page.screenshot({ path, fullPage: true });
  }

  test("shows everything, and what changes without being loaded again", async () => {
    await fill();
    const page = await open({ colorScheme: "light" });
    await shows(page, "running", "130 of 200 pictures");
    await shows(page, "locks", "report-2026-11");
    await shows(page, "failed", "The mail server answered 451");
    await shows(page, "pending", "invoice-42");
    await shows(page, "pending", "in 60 min");
    await shows(page, "completed", "invoice-41");
    await shows(page, "incidents", "lease ended on worker-3");
    expect(await page.locator("#connection").textContent()).toBe("Live");
    expect(await page.locator("#running progress").first().getAttribute("value")).toBe("65");
    expect(await page.locator('[data-figure="waiting"]').textContent()).toBe("3");

    await page.evaluate("window.same = true");
    await queue.enqueue({}, { id: "brand-new" });
    await shows(page, "pending", "brand-new");
    const { run } = await begin(queue, "worker-9");
    await run.progress(10, "just begun");
    await shows(page, "running", "just begun");
    await run.progress(90, "almost done");
    await shows(page, "running", "almost done");
    await run.complete(null, 60_000);
    await shows(page, "completed", run.task.id);
    expect(await page.evaluate("window.same")).toBe(true);
    const left = async (): Promise<string | null> => page.locator("#locks .facts").first().textContent();
    const before = await left();
    await expect.poll(left, patient).not.toBe(before); // a lease runs down by itself
  });

  test("the retry button puts a failed task back in line, by keyboard too, and focus is not lost", async () => {
    await fill();
    const page = await open();
    await page.getByRole("button", { name: "Retry mail-17" }).focus();
    await page.keyboard.press("Enter");
    await shows(page, "pending", "mail-17");
    expect(await placesOf(queue, "mail-17")).toEqual(["ready"]);
    expect(await page.locator("#outcome").textContent()).toBe("mail-17 is back in line");
    await expect.poll(() => page.evaluate("document.activeElement.id"), patient).toBe("failed-title");
  });

  test("asks before it discards or takes back, and leaves it when the answer is no", async () => {
    await fill();
    const page = await open();
    const discard = page.getByRole("button", { name: "Discard mail-17" });
    await discard.click();
    expect(await page.getByRole("dialog", { name: "Discard mail-17?" }).isVisible()).toBe(true);
    expect(await page.evaluate("document.activeElement.textContent")).toBe("Leave it");
    await page.keyboard.press("Escape");
    await discard.click();
    await page.getByRole("button", { name: "Leave it" }).click();
    expect(await placesOf(queue, "mail-17")).toEqual(["failed"]);
    await discard.click();
    await page.locator("#confirmed").click();
    await expect.poll(() => placesOf(queue, "mail-17"), patient).toEqual([]);
    await page.getByRole("button", { name: "Take back thumbnails-8" }).click();
    await page.locator("#confirmed").click();
    await expect.poll(() => fieldOf(queue, "thumbnails-8", "state"), patient).toBe("pending");
  });

  test("shows what tasks are called and say as text, never as markup", async () => {
    await queue.enqueue("x", { id: "a", maxAttempts: 1 });
    const { run } = await begin(queue);
    await run.fail("<img src=x onerror=alert(1)>", 0);
    const page = await open();
    await shows(page, "failed", "<img src=x onerror=alert(1)>");
    expect(await page.locator("img").count()).toBe(0);
  });

  test("says that a lock has no end", async () => {
    await queue.enqueue(1, { id: "a" });
    await queue.claim();
    const lease = await lockTask(queue, "a");
    await lab.redis.persist(lease.key);
    const page = await open();
    await shows(page, "locks", "no end");
  });

  describe.each(["light", "dark"] as const)("in %s mode", (colorScheme) => {
    test("has nothing for axe to find, and shows its own colours", async () => {
      await fill();
      const page = await open({ colorScheme });
      await shows(page, "running", "130 of 200 pictures");
      expect(await accessibilityFindings(page)).toEqual([]);
      const ground = await page.evaluate("getComputedStyle(document.documentElement).backgroundColor");
      expect(ground).toBe(colorScheme === "light" ? "rgb(246, 247, 249)" : "rgb(20, 23, 27)");
      await screenshot(page, `task-coordinator-${colorScheme}`);
      await page.getByRole("button", { name: "Discard mail-17" }).click();
      expect(await accessibilityFindings(page)).toEqual([]);
    });
  });

  test("fits a phone: no scrolling sideways, and buttons that a thumb can hit", async () => {
    await fill();
    await queue.enqueue(1, { id: "x".repeat(128) });
    const page = await open({ viewport: { width: 360, height: 740 }, isMobile: true, hasTouch: true });
    await shows(page, "running", "130 of 200 pictures");
    await shows(page, "pending", "x".repeat(128));
    expect(await page.evaluate("document.documentElement.scrollWidth")).toBe(360);
    for (const button of await page.locator("main button").all()) {
      expect((await button.boundingBox())?.height).toBeGreaterThanOrEqual(44);
    }
    expect(await accessibilityFindings(page)).toEqual([]);
  });

  test("asks for a token where the monitor does, keeps it for the tab, and asks again when it is refused", async () => {
    await queue.enqueue(1, { id: "a" });
    const guarded = await serveMonitor(queue, { everyMs: 50, token: "a-long-random-text" });
    try {
      const page = await open({}, guarded.url);
      const dialog = page.getByRole("dialog", { name: "This monitor asks for a token" });
      await dialog.getByLabel("Token").fill("not this one");
      await page.keyboard.press("Enter");
      await expect.poll(() => page.locator("#connection").textContent(), patient).toBe("The token was refused");
      expect(await accessibilityFindings(page)).toEqual([]);
      await dialog.getByLabel("Token").fill("a-long-random-text");
      await dialog.getByRole("button").click();
      await shows(page, "pending", "a");
      await page.reload();
      await shows(page, "pending", "a");
      await page.close();
      troubles = troubles.filter((trouble) => !/status of 40[01]/.test(trouble));
    } finally {
      await guarded.close();
    }
  });

  test("says that it has lost the monitor, and finds it again", async () => {
    await queue.enqueue(1, { id: "a" });
    const page = await open();
    await shows(page, "pending", "a");
    const port = Number(new URL(served.url).port);
    await served.close();
    await expect.poll(() => page.locator("#connection").textContent(), patient).toMatch(/^Not connected/);
    served = await serveMonitor(queue, { everyMs: 50, port });
    await expect.poll(() => page.locator("#connection").textContent(), patient).toBe("Live");
    troubles = troubles.filter(
      (trouble) => !/ERR_(CONNECTION_REFUSED|INCOMPLETE_CHUNKED_ENCODING|EMPTY_RESPONSE)/.test(trouble),
    );
  });
}
