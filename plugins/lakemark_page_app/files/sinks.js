// The systems outside the lake that get what lands: what each has got, and what it lacks.

import { age, ago, h, number, plural, stateMark, table } from "./dom.js";
import { later } from "./tables.js";

export function sinks(view) {
  if (!view.facts.sinks.length) return null;
  return later(view, "Sinks", "sinks", (found) =>
    table({ class: "sinks" }, ["Sink", "State", "Into", "Guarantee", "Has", "Lacks", "Since"], found.map(sink)));
}

function sink(one) {
  const { standing, lag } = one, has = standing.progress;
  const state = standing.paused ? "paused" : standing.problem ? "failed" : lag?.batches ? "behind" : "ok";
  const said = standing.paused ?? standing.problem ?? one.untold;
  return h("tr", { "data-sink": one.name }, h("th", { scope: "row" }, one.name),
    h("td", {}, stateMark(state), said && h("p", { class: standing.paused ? "quiet" : "problem" }, said)),
    h("td", {}, `${one.system} ${one.place}`), h("td", { class: "quiet" }, `${one.guarantee.replaceAll("_", " ")}, ${one.mode.replaceAll("_", " ")}`),
    h("td", {}, has ? [`version ${number(has.version)}, `, ago(standing.delivered_at)] : "nothing yet"),
    h("td", {}, lag ? lag.batches ? `${plural(lag.batches, "commit")}, ${plural(lag.rows, "row")}` : "nothing" : "not known"),
    h("td", {}, lag?.batches ? age(lag.seconds) : ""));
}
