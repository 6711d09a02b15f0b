// The list of all pipelines, worst first.

import { age, ago, h, mayDraw, number } from "./dom.js";

export function stateMark(state) {
  return h("span", { class: `state ${state.replaceAll(" ", "-")}` }, state);
}

/** A column's heading; a `#` before it marks a column of numbers. */
export function heading(name) {
  return h("th", { scope: "col", class: name.startsWith("#") ? "number" : null }, name.replace("#", ""));
}

export function listView(root) {
  let shown = "", search = "", only = null, facts = null;

  const input = h("input", { type: "search", placeholder: "Search pipelines", "aria-label": "Search pipelines",
    input: () => { search = input.value.toLowerCase(); filter(); } });

  function filter() {
    for (const row of root.querySelectorAll("[data-row]"))
      row.hidden = !(row.dataset.row.includes(search) && (only === null || row.dataset.state === only));
  }

  function chips(pipelines) {
    const counts = new Map();
    for (const { state } of pipelines) counts.set(state, (counts.get(state) ?? 0) + 1);
    return h("div", { class: "chips", role: "group", "aria-label": "By state" }, [...counts].map(([state, count]) =>
      h("button", { type: "button", "aria-pressed": String(only === state), click: () => {
        only = only === state ? null : state;
        draw();
      } }, stateMark(state), ` ${number(count)}`)));
  }

  function row(p) {
    return h("tr", { "data-row": `${p.name} ${p.table}`.toLowerCase(), "data-state": p.state },
      h("td", {}, stateMark(p.state)),
      h("th", { scope: "row" }, h("a", { href: `#/${p.name}`, "data-key": p.name }, p.name),
        h("div", { class: "quiet" }, p.table)),
      h("td", { class: "why", title: p.why || p.kafka_problem },
        h("div", {}, p.why || (p.kafka_problem && `Kafka: ${p.kafka_problem}`))),
      h("td", { class: "number" }, number(p.lag_records)),
      h("td", { class: "number" }, p.lag_records ? age(p.lag_seconds) : "–"),
      h("td", { class: "number" }, number(p.last_batch), p.pending && h("div", { class: "quiet" }, "not committed")),
      h("td", {}, ago(p.committed_at)),
      h("td", { class: "number" }, number(p.quarantined)),
      h("td", { class: "quiet" }, p.schedule));
  }

  function draw() {
    const { pipelines, broken } = facts;
    const focused = document.activeElement?.dataset?.key;
    const typing = document.activeElement === input;
    const columns = ["State", "Pipeline", "Why", "#Lag, records", "#Waiting for", "#Last batch", "Last commit", "#Quarantined", "Runs"];
    root.replaceChildren(
      h("header", {}, h("h1", {}, "Pipelines ", h("span", { class: "quiet" }, number(pipelines.length))), chips(pipelines), input),
      ...broken.map((b) => h("p", { class: "problem" }, b.problem)),
      pipelines.length === 0
        ? h("p", { class: "quiet" }, "No pipeline yet. Put a YAML file into include/pipelines/: its DAG and this page follow within seconds.")
        : h("div", { class: "scroll" }, h("table", {},
            h("thead", {}, h("tr", {}, columns.map(heading))),
            h("tbody", {}, pipelines.map(row)))));
    filter();
    if (typing) input.focus();
    else if (focused) root.querySelector(`[data-key="${CSS.escape(focused)}"]`)?.focus();
  }

  return {
    async refresh(ask) {
      facts = await ask("api/pipelines");
      const told = JSON.stringify(facts, (key, value) => (key === "lag_seconds" ? Math.floor(value) : value));
      if (told === shown || !mayDraw()) return;
      draw();
      shown = told;
    },
  };
}
