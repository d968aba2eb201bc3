/**
 * The page's own program: shows each state that the monitor sends, and asks before what cannot be undone. Elements are kept
 * and changed in place, so that focus and selection outlast an update.
 *
 * @module
 */
import type { State } from "../state.ts";
import { eventsIn } from "./events.ts";
import { type Action, incidentRow, lockRow, type Row, taskRow } from "./rows.ts";

let token = sessionStorage.getItem("token") ?? "";
let latest: State | undefined;
/** By the clock of this page: when the latest state came. */
let latestAt = 0;

function element<E extends HTMLElement = HTMLElement>(id: string): E {
  const found = document.getElementById(id);
  if (!found) throw new Error(`The page has no element "${id}"`);
  return found as E;
}

function request(path: string, init: RequestInit = {}): Promise<Response> {
  return fetch(path, token === "" ? init : { ...init, headers: { authorization: `Bearer ${token}` } });
}

// --- Reading

/** Shows what comes, for as long as it comes. Rejects when it ends. */
async function listen(): Promise<never> {
  const response = await request("api/events");
  if (response.status === 401 || response.status === 400) {
    await signIn(); // 400: what was sent cannot be a token
    return listen();
  }
  if (!response.ok || !response.body) throw new Error(`the monitor answered ${response.status}`);
  for await (const { event, data } of eventsIn(response.body)) {
    if (event === "state") {
      latest = JSON.parse(data);
      latestAt = performance.now();
      show();
    }
    if (event === "state") connection(true, "Live");
    else if (event === "unavailable") connection(false, "Redis cannot be had: trying again");
  }
  throw new Error("the monitor has hung up");
}

async function keepListening(): Promise<never> {
  for (;;) {
    await listen().catch(() => connection(false, "Not connected: trying again"));
    await new Promise((resolve) => setTimeout(resolve, 1_000));
  }
}

/** Says it only when it has changed, as a screen reader speaks it. */
function connection(live: boolean, text: string): void {
  const shown = element("connection");
  shown.dataset.live = String(live);
  if (shown.textContent !== text) shown.textContent = text;
}

async function signIn(): Promise<void> {
  const dialog = element<HTMLDialogElement>("sign-in");
  const input = element<HTMLInputElement>("token");
  connection(false, token === "" ? "A token is asked for" : "The token was refused");
  dialog.showModal();
  await new Promise((resolve) => dialog.addEventListener("close", resolve, { once: true }));
  token = input.value;
  input.value = "";
  sessionStorage.setItem("token", token);
}

// --- Showing

function show(): void {
  if (!latest) return;
  const { queue, counts, totals, running, pending, failed, completed, locks, incidents, now } = latest;
  const nowHere = now + performance.now() - latestAt;
  element("queue").textContent = queue;
  const { attempts = 0, recovered = 0, refused = 0, completed: done = 0 } = totals;
  const waiting = counts.ready + counts.delayed;
  const figures = {
    waiting,
    running: counts.claimed,
    completed: done,
    failed: counts.failed,
    attempts,
    recovered,
    refused,
  };
  for (const [name, value] of Object.entries(figures)) {
    const shown = document.querySelector(`[data-figure="${name}"]`);
    if (shown) shown.textContent = value.toLocaleString("en");
  }
  for (const [id, tasks] of Object.entries({ running, pending, failed, completed })) {
    list(
      id,
      tasks.map((task) => taskRow(task, nowHere)),
      "task",
    );
  }
  list(
    "locks",
    locks.map((lock) => lockRow(lock, nowHere - now)),
    "lock",
  );
  list(
    "incidents",
    incidents.map((incident) => incidentRow(incident, nowHere)),
    "task",
  );
}

/** Makes the list show these rows, in this order, and touches nothing that stays as it is. */
function list(id: string, rows: readonly Row[], template: "task" | "lock"): void {
  const parent = element(id);
  const before = new Map([...parent.children].map((child) => [child.getAttribute("data-key"), child as HTMLElement]));
  const kept = rows.map((row) => {
    const item = before.get(row.key) ?? newItem(template, row);
    before.delete(row.key);
    fill(item, row);
    return item;
  });
  for (const gone of before.values()) {
    // Whoever was on its button goes on from the title of the list.
    if (gone.contains(document.activeElement)) element(`${id}-title`).focus();
    gone.remove();
  }
  kept.forEach((item, place) => {
    if (parent.children[place] !== item) parent.insertBefore(item, parent.children[place] ?? null);
  });
}

function newItem(template: "task" | "lock", { key, id, actions = [] }: Row): HTMLElement {
  const item = element<HTMLTemplateElement>(template).content.firstElementChild?.cloneNode(true) as HTMLElement;
  item.dataset.key = key;
  for (const action of actions) {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = action.label;
    button.setAttribute("aria-label", `${action.label} ${id}`);
    if (action.consequence) button.className = "danger";
    button.addEventListener("click", () => void act(id, action, button));
    item.querySelector(".actions")?.append(button);
  }
  return item;
}

function fill(item: HTMLElement, row: Row): void {
  for (const shown of item.querySelectorAll<HTMLElement>("[data-text]")) {
    const text = row[shown.dataset.text as "id" | "facts" | "note"];
    if (shown.textContent !== text) shown.textContent = text;
  }
  const bar = item.querySelector("progress");
  if (!bar) return;
  bar.hidden = row.bar === undefined;
  bar.value = (row.bar ?? 0) * bar.max;
  bar.setAttribute("aria-label", bar.className === "lease" ? `Lease left of ${row.id}` : `Progress of ${row.id}`);
}

// --- Acting

async function act(id: string, action: Action, button: HTMLButtonElement): Promise<void> {
  if (action.consequence && !(await confirmed(`${action.label} ${id}?`, action.label, action.consequence))) return;
  if (button.ariaBusy === "true") return; // not disabled, as that would take the focus away
  button.ariaBusy = "true";
  const response = await request(`api/tasks/${id}/${action.path}`, { method: "POST" }).catch(() => undefined);
  button.ariaBusy = "false";
  const outcome = response?.ok
    ? action.done
    : response?.status === 409
      ? "has moved on meanwhile"
      : "could not be reached";
  element("outcome").textContent = `${id} ${outcome}`;
}

async function confirmed(question: string, label: string, consequence: string): Promise<boolean> {
  const dialog = element<HTMLDialogElement>("confirm");
  element("question").textContent = question;
  element("consequence").textContent = consequence;
  element("confirmed").textContent = label;
  dialog.returnValue = "no";
  dialog.showModal();
  await new Promise((resolve) => dialog.addEventListener("close", resolve, { once: true }));
  return dialog.returnValue === "yes";
}

setInterval(show, 250); // leases run down and times pass, also while nothing changes
void keepListening();
