// The list of all pipelines, worst first.

import { age, ago, asOf, h, heading, mayDraw, number, saw, stateMark } from "./dom.js";

const COLUMNS = ["State", "Pipeline", "Why", "#Lag, records", "#Waiting for", "#Last batch", "Last commit", "#Quarantine", "Runs"];
const SOURCES = { ledger: "ledgers were read", kafka: "Kafka was asked", quarantine: "quarantines were counted" };

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

  /** A cell with a figure; its age shows when it is old. */
  const figure = (p, source, attributes, ...children) =>
    h("td", { "data-figure": source, ...attributes }, children, asOf(p.name, source));

  function row(p) {
    const q = p.quarantine;
    return h("tr", { "data-row": `${p.name} ${p.table}`.toLowerCase(), "data-state": p.state },
      figure(p, "ledger", {}, stateMark(p.state)),
      h("th", { scope: "row" }, h("a", { href: `#/${p.name}`, "data-key": p.name }, p.name),
        h("div", { class: "quiet" }, p.table)),
      h("td", { class: "why", title: p.why || p.kafka_problem },
        h("div", {}, p.why || (p.kafka_problem && `Kafka: ${p.kafka_problem}`))),
      figure(p, "kafka", { class: "number" }, number(p.lag_records)),
      figure(p, "kafka", { class: "number" }, p.lag_records ? age(p.lag_seconds) : "–"),
      figure(p, "ledger", { class: "number" }, number(p.last_batch), p.pending && h("div", { class: "quiet" }, "not committed")),
      figure(p, "ledger", {}, ago(p.committed_at)),
      figure(p, "quarantine", { class: "number" }, q ? `${number(q.waiting)} wait` : "–",
        q && h("div", { class: "quiet" }, `${number(q.ever)} ever`)),
      h("td", { class: "quiet" }, p.schedule));
  }

  function draw() {
    const { pipelines, broken } = facts;
    const focused = document.activeElement?.dataset?.key;
    const typing = document.activeElement === input;
    root.replaceChildren(...[
      h("header", {}, h("h1", {}, "Pipelines ", h("span", { class: "quiet" }, number(pipelines.length))), chips(pipelines), input),
      ...broken.map((b) => h("p", { class: "problem" }, b.problem)),
      pipelines.length === 0
        ? h("p", { class: "quiet" }, "No pipeline yet. Put a YAML file into include/pipelines/: its DAG and this page follow within seconds.")
        : h("div", { class: "scroll" }, h("table", { class: "pipelines" },
            h("thead", {}, h("tr", {}, COLUMNS.map(heading))),
            h("tbody", {}, pipelines.map(row)))),
      pipelines.length > 0 && h("p", { class: "quiet" }, Object.entries(SOURCES).map(([source, words], n) =>
        [n ? "; " : "As of now: ", `${words} `, h("span", {}, asOf("", source))]), ". Airflow was asked for this page."),
    ].filter(Boolean));
    filter();
    if (typing) input.focus({ preventScroll: true });
    else if (focused) root.querySelector(`[data-key="${CSS.escape(focused)}"]`)?.focus({ preventScroll: true });
  }

  return {
    async refresh(ask) {
      facts = await ask("api/pipelines");
      const told = JSON.stringify(facts, (key, value) => (key === "lag_seconds" ? Math.floor(value) : key === "ages" ? null : value));
      for (const { name, ages } of facts.pipelines) saw(name, ages);
      saw("", oldest(facts.pipelines));
      if (told === shown || !mayDraw()) return;
      draw();
      shown = told;
    },
  };
}

/** The highest age of each source, over all pipelines. */
function oldest(pipelines) {
  const known = (source) => pipelines.map(({ ages }) => ages[source]).filter((seconds) => seconds !== null);
  return Object.fromEntries(Object.keys(SOURCES).map((source) => [source, known(source).length ? Math.max(...known(source)) : null]));
}
