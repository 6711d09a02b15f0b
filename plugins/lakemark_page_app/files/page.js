// The page: chooses the view, refreshes it, follows Airflow's colours, and handles keys.

import { ask, h } from "./dom.js";
import { listView } from "./list.js";
import { pipelineView } from "./pipeline.js";

const FRESH_MS = 3000;
const main = document.getElementById("main");
const trouble = document.getElementById("trouble");
let view = null;
let timer = null;

/** Shows the view of the address: `#/` is the list, `#/NAME` a pipeline. */
async function show() {
  const name = decodeURIComponent(location.hash.replace(/^#\/?/, ""));
  view = name ? pipelineView(main, name) : listView(main);
  document.title = name ? `${name} – Lakemark` : "Lakemark";
  rememberInParent();
  main.replaceChildren(h("p", { class: "quiet" }, "Loading …"));
  await refresh();
  main.focus();
}

async function refresh() {
  clearTimeout(timer);
  const shown = view;
  try {
    if (!document.hidden) await shown.refresh(ask);
    if (shown === view) trouble.hidden = true;
  } catch (error) {
    if (shown !== view) return;
    if (error.status === 404) return notThere(error);
    trouble.textContent = error.message;
    trouble.hidden = false;
  }
  if (shown === view) timer = setTimeout(refresh, FRESH_MS);
}

/** A pipeline that is not there, or not any more. It is looked for again: its file may be mended. */
function notThere(error) {
  trouble.hidden = true;
  main.replaceChildren(h("header", {}, h("h1", {}, "No such pipeline")), h("p", {}, `${error.message}.`),
    h("p", {}, h("a", { href: "#/" }, "All pipelines")));
  view.forget?.();
  timer = setTimeout(refresh, FRESH_MS);
}

/** Keeps the frame's view in Airflow's own address, so that the address can be shared and reloaded. */
function rememberInParent() {
  if (window.parent === window) return;
  const { location: address, history } = window.parent;
  history.replaceState(history.state, "", address.pathname + address.search + location.hash);
}

function followTheme() {
  const outer = window.parent === window ? null : window.parent.document.documentElement;
  const system = matchMedia("(prefers-color-scheme: dark)");
  const apply = () => {
    const classes = outer?.classList;
    const dark = classes?.contains("dark") || (!classes?.contains("light") && system.matches);
    document.documentElement.dataset.theme = dark ? "dark" : "light";
  };
  if (outer) new MutationObserver(apply).observe(outer, { attributes: true, attributeFilter: ["class"] });
  system.addEventListener("change", apply);
  apply();
}

function step(by) {
  const rows = [...main.querySelectorAll("[data-row]:not([hidden])")];
  const at = rows.findIndex((row) => row.contains(document.activeElement));
  const next = rows[Math.min(Math.max(at + by, 0), rows.length - 1)];
  next?.querySelector("a, button")?.focus();
}

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return;
  const typing = event.target.matches("input, select, textarea");
  if (event.key === "Escape") {
    if (typing) event.target.blur();
    else if (location.hash.length > 2) location.hash = "#/";
  } else if (typing) return;
  else if (event.key === "j" || event.key === "ArrowDown") step(1);
  else if (event.key === "k" || event.key === "ArrowUp") step(-1);
  else if (event.key === "/") main.querySelector("input[type=search]")?.focus();
  else return;
  event.preventDefault();
});
document.addEventListener("visibilitychange", () => document.hidden || refresh());
document.addEventListener("lakemark:refresh", refresh);
window.addEventListener("hashchange", show);

followTheme();
const asked = window.parent !== window ? window.parent.location.hash : "";
if (!location.hash && asked.startsWith("#/") && asked !== "#/") location.hash = asked;
else show();
