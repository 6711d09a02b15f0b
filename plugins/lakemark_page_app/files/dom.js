// Small helpers: elements, and numbers, ages and times in a readable form. Text is always set as text, never as HTML.

const SVG = "http://www.w3.org/2000/svg";
const OLD_SECONDS = 10; // what is older is not shown as present

/** An element with attributes (functions become listeners) and children (strings become text). */
export function h(tag, attributes = {}, ...children) {
  return filled(document.createElement(tag), attributes, children);
}

/** The same for SVG. */
export function s(tag, attributes = {}, ...children) {
  return filled(document.createElementNS(SVG, tag), attributes, children);
}

function filled(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") element.addEventListener(name, value);
    else if (value === true) element.setAttribute(name, "");
    else if (value !== null && value !== undefined && value !== false) element.setAttribute(name, value);
  }
  element.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

export const number = (n) => (n === null || n === undefined ? "–" : n.toLocaleString("en"));

export const plural = (n, word) => `${number(n)} ${word}${n === 1 ? "" : "s"}`;

/** A length of time in its two largest units: `1 h 56 min`. */
export function age(seconds) {
  if (seconds === null || seconds === undefined) return "–";
  const units = [["d", 86400], ["h", 3600], ["min", 60], ["s", 1]];
  const first = Math.max(0, units.findIndex(([, size]) => seconds >= size));
  if (seconds < 1) return "0 s";
  const [unit, size] = units[first], whole = Math.floor(seconds / size);
  const [smaller, part] = units[first + 1] ?? ["", 0];
  const rest = part ? Math.floor((seconds % size) / part) : 0;
  return rest && !(unit === "min" && whole >= 10) ? `${whole} ${unit} ${rest} ${smaller}` : `${whole} ${unit}`;
}

/** A time in the reader's zone, as ISO 8601 writes it, without the T. */
export function iso(moment) {
  const at = new Date(moment), two = (n) => String(n).padStart(2, "0");
  return `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())} ${two(at.getHours())}:${two(at.getMinutes())}:${two(at.getSeconds())}`;
}

/** The age of a time (ISO 8601), which is kept up to date; the time itself is the title. */
export function ago(moment) {
  if (!moment) return "–";
  const time = h("time", { datetime: moment, title: iso(moment) });
  time.textContent = agoText(moment);
  return time;
}

const agoText = (moment) => `${age(Math.max(0, (Date.now() - Date.parse(moment)) / 1000))} ago`;

// ---------------------------------------------------------------- how old a figure is

const seen = new Map(); // when each source was asked, by the browser's clock

/** Notes how old what has just been answered is. Args: ages: seconds by source; null: never seen. */
export function saw(name, ages) {
  for (const [source, seconds] of Object.entries(ages))
    seen.set(`${name}/${source}`, seconds === null ? null : Date.now() - seconds * 1000);
  tick();
}

/** How old a figure is. It is kept up to date, and marks the nearest `[data-figure]` when that is no longer present. */
export function asOf(name, source) {
  const mark = h("span", { class: "as-of", "data-of": `${name}/${source}` });
  show(mark);
  return mark;
}

function show(mark) {
  const at = seen.get(mark.dataset.of);
  const seconds = at === null || at === undefined ? null : Math.max(0, (Date.now() - at) / 1000);
  mark.textContent = seconds === null ? "" : `${age(seconds)} ago`;
  const isOld = seconds !== null && seconds > OLD_SECONDS;
  mark.classList.toggle("old", isOld);
  mark.closest("[data-figure]")?.classList.toggle("old", isOld);
}

function tick() {
  for (const time of document.querySelectorAll("time[datetime]")) time.textContent = agoText(time.dateTime);
  for (const mark of document.querySelectorAll("[data-of]")) show(mark);
}

setInterval(tick, 1000);

// ---------------------------------------------------------------- the page around it

let pressed = false;
addEventListener("pointerdown", () => (pressed = true), true);
for (const name of ["pointerup", "pointercancel"]) addEventListener(name, () => setTimeout(() => (pressed = false)), true);

/** Whether the page may be drawn again: not while a button is pressed (its click would be lost), nor under a dialog. */
export const mayDraw = () => !pressed && !document.querySelector("dialog[open]");

/** A link into Airflow. The page is in a frame that may not navigate by itself, so the parent follows the link. */
export function airflowLink(path, attributes, ...children) {
  const href = new URL(`../${path}`, new URL(".", location.href)).href;
  const go = (event) => {
    if (window.parent === window) return;
    event.preventDefault();
    visit(href);
  };
  return h("a", { href, click: go, ...attributes }, ...children);
}

export function visit(href) {
  const link = window.parent.document.createElement("a");
  link.href = href;
  window.parent.document.body.append(link);
  link.click();
  link.remove();
}

/** Gets JSON from the page's own API, or from Airflow's (`../api/v2/...`). Throws an Error that says what is wrong, with
    the answer's `status`. */
export async function ask(path, options) {
  let answer;
  try {
    answer = await fetch(path, options);
  } catch {
    throw new Error("Airflow's API server does not answer");
  }
  if (answer.ok) return answer.json();
  const told = await answer.json().catch(() => ({}));
  const detail = typeof told.detail === "string" ? told.detail : JSON.stringify(told.detail ?? told);
  const meaning = { 401: "You are not logged in any more: reload Airflow.", 403: "You may not see or do this." };
  throw Object.assign(new Error(meaning[answer.status] ?? detail), { status: answer.status });
}

/** Asks with a body of JSON. */
export const send = (path, method, body) =>
  ask(path, { method, headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) });

// ---------------------------------------------------------------- parts that sections share

export function section(title, ...children) {
  return h("section", { "aria-label": title }, h("h2", {}, title), ...children);
}

/** A column's heading; a `#` before it marks a column of numbers. */
export function heading(name) {
  return h("th", { scope: "col", class: name.startsWith("#") ? "number" : null }, name.replace("#", ""));
}

export function table(attributes, columns, rows) {
  return h("div", { class: "scroll" }, h("table", attributes,
    h("thead", {}, h("tr", {}, columns.map(heading))), h("tbody", {}, rows)));
}

export function stateMark(state) {
  return h("span", { class: `state ${state.replaceAll(" ", "-")}` }, state);
}
