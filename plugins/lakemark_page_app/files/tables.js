// What lies beside the batches: proofs, quarantine, quality, versions, lineage, backfills, generations.

import { cancelBackfill, resumeBackfill } from "./actions.js";
import { ago, asOf, h, iso, number, plural, s, section, stateMark, table } from "./dom.js";
import { dispositions, judgementStrip, legend } from "./drawing.js";

/** A section whose answer is fetched beside the others. Args: drawn: draws it. above: what stands there in any case. */
export function later(view, title, part, drawn, ...above) {
  const answer = view.part(part);
  const age = h("span", { class: "quiet" }, " ", asOf(view.name, part));
  if (answer === null) return section(title, above, h("p", { class: "quiet" }, "Loading …"));
  const shown = answer.problem ? h("p", { class: answer.status === 403 ? "quiet" : "problem" }, answer.problem) : drawn(answer.facts);
  const found = section(title, above, h("div", { "data-figure": part }, shown));
  found.firstChild.append(age);
  return found;
}

export function proofs(view) {
  return later(view, "Tables", "tables", (t) => [
    t.problem && h("p", { class: "problem" }, t.problem),
    t.mends.length > 0 && h("p", {}, h("strong", {}, `Repair due: ${t.mends.join(", ")}. `), "The next batch mends it, also without records."),
    table({ class: "tables" }, ["Table", "Proof", "By rows", "By log", "Repair"], Object.entries(t.proofs).map(([name, proof]) =>
      h("tr", { "data-table": name }, h("th", { scope: "row" }, name), h("td", {}, stateMark(proof.outcome)), look(view, proof.rows),
        look(view, proof.log), h("td", {}, t.mends.includes(name) && stateMark("repair due"))))),
    Object.values(t.proofs).some((proof) => proof.outcome !== "proven")
      && h("p", { class: "quiet" }, "The button Audit proves the tables, as ", h("code", {}, `lakemark audit ${view.name} --deep`), " does."),
  ]);
}

function look(view, found) {
  if (!found) return h("td", { class: "quiet" }, "–");
  const of = found.generation === view.facts.generation ? "" : ` of generation ${number(found.generation)}`;
  const until = found.batch_id < 0 ? "before the first batch" : `up to batch ${number(found.batch_id)}`;
  return h("td", { class: found.findings ? "problem" : null },
    found.findings ? `${plural(found.findings, "finding")} ` : "", ago(found.at), `, ${until}${of}`);
}

export function quarantine(view) {
  return later(view, "Quarantine", "quarantine", (reasons) => reasons.length === 0
    ? h("p", { class: "quiet" }, "Nothing is quarantined.")
    : reasons.map((r) => h("details", { "data-open": `q ${r.reason}` },
        h("summary", {}, h("strong", {}, r.pending ? `${number(r.pending)} wait` : "none waits"), ` · ${r.reason} · ${became(r)}newest of `,
          r.newest ? iso(r.newest) : "–"),
        r.samples.map((sample) => h("figure", {},
          h("figcaption", { class: "quiet" }, `${sample.topic}-${sample.partition} offset ${number(sample.offset)}, ${writer(sample)}`),
          h("pre", {}, sample.value ?? "null"))))));
}

const became = (r) => ["replayed", "discarded", "applied"].filter((name) => r[name])
  .map((name) => `${number(r[name])} ${name === "applied" ? "applied since" : name} · `).join("");

/** What set a record aside, or wrote a row. */
export function writer({ generation, batch_id: batch }) {
  if (generation < 0) return `backfill ${-generation}, chunk ${batch}`;
  return generation > 1 ? `batch ${number(batch)} of generation ${generation}` : `batch ${number(batch)}`;
}

export function quality(view) {
  return later(view, "Quality", "quality", (q) => q.judgements.length === 0
    ? h("p", { class: "quiet" }, q.suite ? `Suite ${q.suite} has judged no batch yet.` : "The pipeline file names no suite.")
    : [h("p", {}, `Suite ${q.suite}, the newest ${plural(q.judgements.length, "judgement")}; a higher bar has more broken rules:`),
      legend([...new Set(q.judgements.map((j) => `outcome-${j.outcome}`))]), judgementStrip(q.judgements),
      table({}, ["Rule", "Policy", "Holds", "#Broken", "Observed"], q.rules.map((r) => h("tr", {},
        h("th", { scope: "row" }, r.rule), h("td", {}, r.policy), h("td", { class: r.success ? null : "problem" }, r.success ? "yes" : "no"),
        h("td", { class: "number" }, r.unexpected_count === null ? "" : `${number(r.unexpected_count)} of ${number(r.element_count)}`),
        h("td", {}, r.observed === null ? "" : String(r.observed)))))]);
}

export function versions(view) {
  return later(view, "Table versions", "versions", (list) => list.length === 0
    ? h("p", { class: "quiet" }, "There is no table yet.")
    : table({}, ["Version", "Operation", "By", "#Rows changed", "When"], list.map((v) => h("tr", {},
        h("th", { scope: "row" }, number(v.version)), h("td", {}, v.operation),
        h("td", { class: v.foreign ? "foreign" : null }, v.by, v.foreign && " (not by Lakemark)"),
        h("td", { class: "number" }, v.rows === null ? "" : number(v.rows)), h("td", {}, ago(v.at))))));
}

export function backfills(view) {
  const { facts } = view;
  if (facts.backfills.length === 0) return null;
  const columns = ["Backfill", "State", "Chunks", "Into", "When", "Why", "Who", ""];
  return section("Backfills", table({}, columns, facts.backfills.map((b) => {
    const landed = b.chunks.filter(([done]) => done).length;
    return h("tr", {}, h("th", { scope: "row" }, `backfill ${b.number}`),
      h("td", {}, b.outcome ?? "not ended"),
      h("td", {}, h("progress", { max: b.chunks.length, value: landed, "aria-label": "landed chunks" }), ` ${landed} of ${plural(b.chunks.length, "chunk")}`),
      h("td", {}, b.into === "new" ? "a new table" : "the table"), h("td", {}, ago(b.at)), h("td", {}, b.reason),
      h("td", { class: "quiet" }, b.requested_by),
      h("td", { class: "buttons" }, !b.outcome && [
        h("button", { type: "button", "data-key": `resume-${b.number}`, click: () => resumeBackfill(view, b) }, "Resume …"),
        h("button", { type: "button", "data-key": `cancel-${b.number}`, click: () => cancelBackfill(view, b) }, "Cancel …")]));
  })));
}

export function generations(view) {
  const { facts } = view;
  if (facts.generations.length === 0) return null;
  return section("Generations", table({}, ["Generation", "From", "When", "#Batches", "Records", "Why", "Who", "Given up"], facts.generations.map((g) =>
    h("tr", {}, h("th", { scope: "row" }, `generation ${g.generation}`), h("td", {}, g.origin ?? "the beginning"), h("td", {}, ago(g.at)),
      h("td", { class: "number" }, number(g.commits)), h("td", {}, g.commits ? [dispositions(g.records), ` ${number(g.records.read)} read`] : "–"),
      h("td", {}, g.reason), h("td", { class: "quiet" }, g.started_by),
      h("td", {}, (g.skipped ?? []).map(([t, n, a, z]) => `${t}-${n}:${a}-${z}`).join(", "))))));
}

// ---------------------------------------------------------------- lineage

const BOX = { width: 250, height: 34, gap: 8, between: 70 };

export function lineage(view) {
  return later(view, "Lineage", "lineage", (l) => {
    const from = [...l.topics.map((topic) => ["topic", topic]), ...Object.entries(l.references).map(([name, of]) => ["reference", `${name}: ${of}`])];
    const to = l.tables.map((t) => ["table", t.table, l.consumers[t.table] ?? []]);
    const waiting = [...new Set(to.flatMap(([, , dags]) => dags))];
    const rows = Math.max(from.length, to.length, waiting.length, 1), height = rows * (BOX.height + BOX.gap);
    const x = (column) => column * (BOX.width + BOX.between), y = (n, of) => ((n + 0.5) * height) / of - BOX.height / 2;
    const lines = [
      ...from.map((_, n) => [0, y(n, from.length), 1, y(0, 1)]), ...to.map((_, n) => [1, y(0, 1), 2, y(n, to.length)]),
      ...to.flatMap(([, , dags], n) => dags.map((dag) => [2, y(n, to.length), 3, y(waiting.indexOf(dag), waiting.length)]))];
    const box = (column, top, kind, text) => s("g", {}, s("rect", { class: `box ${kind}`, x: x(column), y: top, width: BOX.width, height: BOX.height, rx: 5 }),
      s("text", { x: x(column) + 10, y: top + 21 }, cut(text)), s("title", {}, `${kind}: ${text}`));
    const width = x(waiting.length ? 3 : 2) + BOX.width;
    return h("div", { class: "scroll" }, s("svg", { class: "lineage", viewBox: `0 0 ${width} ${height}`, width, height, role: "img",
        "aria-label": `from ${plural(from.length, "source")} into ${plural(to.length, "table")}` },
      lines.map(([a, top, b, bottom]) => s("path", { d: `M${x(a) + BOX.width} ${top + 17} C${x(a) + BOX.width + 40} ${top + 17} ${x(b) - 40} ${bottom + 17} ${x(b)} ${bottom + 17}` })),
      from.map(([kind, text], n) => box(0, y(n, from.length), kind, text)), box(1, y(0, 1), "pipeline", view.name + (l.transform ? ` (${l.transform})` : "")),
      to.map(([kind, text], n) => box(2, y(n, to.length), kind, text)), waiting.map((dag, n) => box(3, y(n, waiting.length), "DAG", dag))));
  });
}

const cut = (text) => (text.length <= 34 ? text : `…${text.slice(-33)}`);
