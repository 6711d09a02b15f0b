// Small helpers: elements, and numbers and ages in a readable form. Text is always set as text, never as HTML.

const SVG = "http://www.w3.org/2000/svg";

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

export function age(seconds) {
  if (seconds === null || seconds === undefined) return "–";
  if (seconds < 1) return "0 s";
  for (const [unit, size] of [["d", 86400], ["h", 3600], ["min", 60]])
    if (seconds >= 2 * size) return `${Math.floor(seconds / size)} ${unit}`;
  return `${Math.floor(seconds)} s`;
}

/** The age of a time (ISO 8601), which is kept up to date; the time itself is the title. */
export function ago(moment) {
  if (!moment) return "–";
  const time = h("time", { datetime: moment, title: new Date(moment).toLocaleString() });
  time.textContent = agoText(moment);
  return time;
}

const agoText = (moment) => `${age(Math.max(0, (Date.now() - Date.parse(moment)) / 1000))} ago`;

setInterval(() => {
  for (const time of document.querySelectorAll("time[datetime]")) time.textContent = agoText(time.dateTime);
}, 1000);

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

/** Gets JSON from the page's own API, or from Airflow's (`../api/v2/...`). Throws an Error that says what is wrong. */
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
  throw new Error(meaning[answer.status] ?? detail);
}
