// How the pipeline did over hours and days, and what people did to it.

import { ago, age, h, iso, number, plural, table } from "./dom.js";
import { columns } from "./drawing.js";
import { later } from "./tables.js";

const SPANS = [[6, "6 h"], [24, "24 h"], [24 * 7, "7 d"], [24 * 30, "30 d"]];

export function trends(view) {
  const { chosen } = view;
  const buttons = h("p", { class: "buttons", role: "group", "aria-label": "Over" }, SPANS.map(([hours, text]) =>
    h("button", { type: "button", "data-key": `span-${hours}`, "aria-pressed": String(chosen.hours === hours), click: () => {
      chosen.hours = hours;
      view.refetch("trends");
    } }, text)));
  return later(view, "Trends", "trends", ({ hours, points, is_cut }) => {
    const seconds = (hours * 3600) / points.length, per = `in ${age(seconds)} from`;
    const values = (value, text) => points.map((p) => ({ at: p.at, value: value(p), text: `${text(p)}, ${per} ${iso(p.at)}` }));
    const rate = (p) => (p.read ? (100 * p.quarantined) / p.read : null);
    return [
      is_cut && h("p", { class: "note" }, "There are too many batches in this time: the earliest are left out."),
      h("div", { class: "trends" },
        columns("Lag when a batch was planned", values((p) => p.lag_records,
          (p) => `${p.lag_at_least ? "at least " : ""}${plural(p.lag_records, "record")}`), " records"),
        columns("Throughput", values((p) => (p.batches ? p.read / seconds : null), (p) => `${plural(p.read, "record")} in ${plural(p.batches, "batch").replace("batchs", "batches")}`), " records/s"),
        columns("Seconds per batch", values((p) => p.seconds, (p) => `${p.seconds} s on average, ${p.seconds_max} s at most`), " s"),
        columns("Quarantine rate", values(rate, (p) => `${number(p.quarantined)} of ${plural(p.read, "record")}`).map((v) => ({ ...v, kind: "quarantined" })), " %"))];
  }, buttons);
}

export function timeline(view) {
  return later(view, "Timeline", "timeline", (lines) => lines.length === 0
    ? h("p", { class: "quiet" }, "Nobody has done anything to this pipeline, and no attempt has failed.")
    : table({ class: "timeline" }, ["When", "What", "", "Who", "Why"], lines.map((line) => h("tr", { class: line.is_error ? "error" : null },
        h("td", {}, h("span", { class: "iso" }, iso(line.at)), h("div", { class: "quiet" }, ago(line.at))), h("th", { scope: "row" }, line.kind),
        h("td", { class: "why" }, h("div", { title: line.what }, line.what)), h("td", { class: "quiet" }, line.who), h("td", {}, line.why)))));
}
