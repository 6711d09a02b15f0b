// The batches of the current generation: what became of their records, how long they took, and their attempts.

import { compareVersions } from "./data.js";
import { ago, airflowLink, asOf, h, heading, number, section } from "./dom.js";
import { DISPOSITIONS, dispositions, legend, PHASES, phases, total } from "./drawing.js";

const COLUMNS = ["Batch", "State", "When", "#Records", "By disposition", "#Time", "By phase", "#Attempts", "#Version"];

export function batchState(batch) {
  if (batch.commit) return "committed";
  const last = batch.attempts.at(-1);
  return last?.problem ? "failed" : "planned";
}

export function batchSection(view) {
  const { facts, chosen } = view, { batches } = facts;
  const all = batches.map(secondsOf), most = Math.max(...all.map(total));
  const lowest = batches.at(-1)?.batch_id;
  return section("Batches",
    h("p", { class: "quiet", "data-figure": "ledger" }, "The ledger was read ", asOf(view.name, "ledger"), "."),
    batches.length === 0 ? h("p", { class: "quiet" }, "No batch yet.") : h("div", { class: "scroll" }, h("table", { class: "batches" },
      h("thead", {},
        h("tr", {}, COLUMNS.map(heading)),
        h("tr", { class: "legends" }, h("td", { colspan: 4 }),
          h("td", {}, legend(DISPOSITIONS.filter((kind) => batches.some((b) => b.commit?.counts?.[kind])))), h("td", {}),
          h("td", { colspan: 3 }, legend(PHASES.filter((phase) => all.some((seconds) => seconds[phase])))))),
      h("tbody", {}, batches.flatMap((batch, n) => row(view, batch, all[n], most))))),
    h("p", { class: "turn" },
      chosen.before !== null && h("button", { type: "button", "data-key": "newest", click: () => view.turn(null) }, "Newest"),
      lowest > 0 && h("button", { type: "button", "data-key": "older", click: () => view.turn(lowest) }, "Older")));
}

function secondsOf(batch) {
  const landed = batch.attempts.find((a) => a.outcome === "applied") ?? batch.attempts.at(-1);
  const seconds = { ...landed?.phase_seconds };
  if (batch.commit?.settle_seconds) seconds.settle = batch.commit.settle_seconds;
  return seconds;
}

function row(view, batch, seconds, most) {
  const state = batchState(batch), open = view.chosen.batch === batch.batch_id;
  const shown = h("tr", { "data-row": String(batch.batch_id), class: open ? "selected" : null },
    h("th", { scope: "row" }, h("button", { type: "button", class: "link", "aria-expanded": String(open),
      "data-key": `batch-${batch.batch_id}`, click: () => view.select(batch.batch_id) }, `batch ${number(batch.batch_id)}`)),
    h("td", {}, h("span", { class: `state ${state}` }, state)),
    h("td", {}, ago(batch.commit?.committed_at ?? batch.planned_at)),
    h("td", { class: "number" }, number(batch.commit?.counts?.read)),
    h("td", {}, dispositions(batch.commit?.counts)),
    h("td", { class: "number" }, total(seconds) ? `${total(seconds).toFixed(1)} s` : "–"),
    h("td", {}, phases(seconds, most)),
    h("td", { class: "number" }, number(batch.attempts.length)),
    h("td", { class: "number" }, number(batch.commit?.table_version)));
  return open ? [shown, h("tr", { class: "details" }, h("td", { colspan: COLUMNS.length }, details(view, batch)))] : [shown];
}

function details(view, batch) {
  const counts = batch.commit?.counts, version = batch.commit?.table_version;
  return [
    h("p", {}, batch.ranges.flatMap(([topic, n, start, end]) => [h("code", {}, `${topic}-${n}:${start}-${end}`), " "])),
    counts && h("p", {}, `${number(counts.read)} read${counts.added ? ` + ${number(counts.added)} added` : ""} = `,
      DISPOSITIONS.filter((name) => counts[name] || name !== "routed").map((name) => `${number(counts[name])} ${name}`).join(" + ")),
    version > 0 && h("p", {}, h("button", { type: "button", "data-key": "what-changed", click: () => compareVersions(view, version - 1, version) }, "What it changed")),
    h("ol", {}, batch.attempts.map((a) => h("li", {},
      a.outcome ?? "no result yet: it is running, or was killed", " · ", a.started_by, " on ", a.host, " · ", ago(a.started_at),
      a.log && [" · ", airflowLink(a.log, {}, "log")],
      Object.entries(a.engines ?? {}).map(([table, engine]) => [" · ", `${table} by ${engine}`]),
      a.problem && h("p", { class: "problem" }, a.problem)))),
    batch.attempts.length === 0 && h("p", { class: "quiet" }, "No attempt yet."),
  ];
}
