// One pipeline: the offsets of its partitions, its batches, and what became of their records.

import { actions } from "./actions.js";
import { age, ago, airflowLink, h, mayDraw, number } from "./dom.js";
import { batchStrip, DISPOSITIONS, dispositions, judgementStrip, legend, partitionStrip, PHASES, phases, total } from "./drawing.js";
import { heading, stateMark } from "./list.js";

const PAGE = 40; // batches
const SLOW = 5; // tables, quarantine, versions and quality are fetched at every fifth refresh

const MILD = new Set(["paused", "unproven"]); // states whose reason is no problem

export function batchState(batch) {
  if (batch.commit) return "committed";
  const last = batch.attempts.at(-1);
  return last?.problem ? "failed" : "planned";
}

export function pipelineView(root, name) {
  const path = `api/pipelines/${encodeURIComponent(name)}`;
  let facts = null, batches = [], before = null, selected = null, shown = "", rounds = 0;
  const slow = { tables: null, quarantine: null, versions: null, quality: null };

  function select(id) {
    selected = selected === id ? null : id;
    draw();
  }

  function turn(to) {
    before = to;
    selected = null;
    document.dispatchEvent(new Event("lakemark:refresh"));
  }

  // ---------------------------------------------------------------- sections

  function head() {
    const f = facts;
    return h("header", {},
      h("nav", {}, h("a", { href: "#/", "data-key": "all" }, "Pipelines"), " / "),
      h("h1", {}, f.name, " ", stateMark(f.state)),
      actions(f, batches.find((batch) => batch.batch_id === selected)));
  }

  function why() {
    const f = facts;
    const text = f.why || (f.kafka_problem && `Kafka: ${f.kafka_problem}`);
    if (!text) return null;
    const [what, todo] = text.split("What to do: ");
    return h("div", { class: MILD.has(f.state) ? "note" : "problem" }, h("p", {}, what), todo && h("p", {}, h("strong", {}, "What to do: "), todo),
      f.failed_run && airflowLink(`dags/${f.dag_id}/runs/${encodeURIComponent(f.failed_run)}`, {}, "The run that failed"));
  }

  function figures() {
    const f = facts;
    const cells = [
      ["Lag", [f.lag_records === null ? "unknown" : `${number(f.lag_records)} records`, f.lag_records ? `, for ${age(f.lag_seconds)}` : ""]],
      ["Last commit", [ago(f.committed_at)]],
      ["Table", [f.table, h("br"), "version ", number(f.table_version)], "wide"],
      ["Batches", [number(f.commits), f.generation > 1 && `, generation ${number(f.generation)}`]],
      ["Runs", [f.schedule], "wide"],
      ["Records", [dispositions(f.records), " ", DISPOSITIONS.filter((name) => f.records[name])
        .map((name) => `${number(f.records[name])} ${name}`).join(", ") || "none yet"], "wide"],
    ];
    return h("dl", { class: "figures" }, cells.map(([term, value, width]) =>
      h("div", { class: width }, h("dt", {}, term), h("dd", {}, value))));
  }

  function offsets() {
    const failed = facts.state === "failed" || facts.state === "retrying";
    const rows = facts.partitions.map((p) => {
      const again = facts.backfills.filter((b) => b.outcome !== "cancelled").flatMap((b) => b.chunks.flatMap(
        ([landed, ...ranges]) => ranges.filter(([topic, n]) => topic === p.topic && n === p.partition)
          .map(([, , start, end]) => ({ number: b.number, landed, start, end }))));
      return h("div", { class: "partition" },
        h("div", { class: "name" }, `${p.topic}-${p.partition}`),
        h("div", {}, partitionStrip(p, failed, again), batchStrip(p, batches, batchState, selected, select)),
        h("div", { class: "quiet number" }, `${number(p.committed)} of ${number(p.log_end)}`));
    });
    return section("Offsets", legend(["committed", "planned", "failed", "waiting", "expired", "backfilled"]), rows,
      rows.length === 0 && h("p", { class: "quiet" }, "Nothing has been read yet, and Kafka has not named the topics yet."));
  }

  function look(seen) {
    if (!seen) return h("td", { class: "quiet" }, "–");
    const of = seen.generation === facts.generation ? "" : ` of generation ${number(seen.generation)}`;
    const until = seen.batch_id < 0 ? "before the first batch" : `up to batch ${number(seen.batch_id)}`;
    return h("td", { class: seen.findings ? "problem" : null },
      seen.findings ? `${number(seen.findings)} finding${seen.findings === 1 ? "" : "s"} ` : "", ago(seen.at), `, ${until}${of}`);
  }

  function tables() {
    return later("Tables", slow.tables, (t) => [
      t.problem && h("p", { class: "problem" }, t.problem),
      t.mends.length > 0 && h("p", {}, h("strong", {}, `Repair due: ${t.mends.join(", ")}. `), "The next batch mends it, also without records."),
      h("table", { class: "tables" },
        h("thead", {}, h("tr", {}, ["Table", "Proof", "By rows", "By log", ""].map(heading))),
        h("tbody", {}, Object.entries(t.proofs).map(([name, proof]) => h("tr", { "data-table": name },
          h("th", { scope: "row" }, name), h("td", {}, stateMark(proof.outcome)), look(proof.rows), look(proof.log),
          h("td", {}, t.mends.includes(name) && stateMark("repair due")))))),
      Object.values(t.proofs).some((proof) => proof.outcome !== "proven")
        && h("p", { class: "quiet" }, h("code", {}, `lakemark audit ${facts.name} --deep`), " proves the tables."),
    ]);
  }

  function batchRow(batch, most) {
    const state = batchState(batch);
    const landed = batch.attempts.find((a) => a.outcome === "applied") ?? batch.attempts.at(-1);
    const seconds = landed ? { ...landed.phase_seconds } : {};
    if (batch.commit?.settle_seconds) seconds.settle = batch.commit.settle_seconds;
    const open = selected === batch.batch_id;
    const row = h("tr", { "data-row": String(batch.batch_id), class: open ? "selected" : null },
      h("th", { scope: "row" }, h("button", { type: "button", class: "link", "aria-expanded": String(open),
        "data-key": `batch-${batch.batch_id}`, click: () => select(batch.batch_id) }, `batch ${number(batch.batch_id)}`)),
      h("td", {}, h("span", { class: `state ${state}` }, state)),
      h("td", {}, ago(batch.commit?.committed_at ?? batch.planned_at)),
      h("td", { class: "number" }, number(batch.commit?.counts?.read)),
      h("td", {}, dispositions(batch.commit?.counts)),
      h("td", { class: "number" }, total(seconds) ? `${total(seconds).toFixed(1)} s` : "–"),
      h("td", {}, phases(seconds, most)),
      h("td", { class: "number" }, number(batch.attempts.length)),
      h("td", { class: "number" }, number(batch.commit?.table_version)));
    return open ? [row, h("tr", { class: "details" }, h("td", { colspan: 9 }, details(batch)))] : [row];
  }

  function details(batch) {
    const counts = batch.commit?.counts;
    return [
      h("p", {}, batch.ranges.map(([topic, n, start, end]) => h("code", {}, `${topic}-${n}:${start}-${end}`)).flatMap((c) => [c, " "])),
      counts && h("p", {}, `${number(counts.read)} read${counts.added ? ` + ${number(counts.added)} added` : ""} = `,
        DISPOSITIONS.filter((name) => counts[name] || name !== "routed").map((name) => `${number(counts[name])} ${name}`).join(" + ")),
      h("ol", {}, batch.attempts.map((a) => h("li", {},
        a.outcome ?? "no result yet: it is running, or was killed", " · ", a.started_by, " on ", a.host, " · ", ago(a.started_at),
        a.log && [" · ", airflowLink(a.log, {}, "log")],
        a.problem && h("p", { class: "problem" }, a.problem)))),
      batch.attempts.length === 0 && h("p", { class: "quiet" }, "No attempt yet."),
    ];
  }

  function batchList() {
    const seconds = batches.map((b) => total((b.attempts.find((a) => a.outcome === "applied") ?? b.attempts.at(-1))?.phase_seconds ?? {}));
    const columns = ["Batch", "State", "When", "#Records", "By disposition", "#Time", "By phase", "#Attempts", "#Version"];
    const lowest = batches.at(-1)?.batch_id;
    return section("Batches",
      h("p", {}, legend(DISPOSITIONS), legend(PHASES)),
      batches.length === 0 ? h("p", { class: "quiet" }, "No batch yet.") : h("div", { class: "scroll" }, h("table", { class: "batches" },
        h("thead", {}, h("tr", {}, columns.map(heading))),
        h("tbody", {}, batches.flatMap((b) => batchRow(b, Math.max(...seconds)))))),
      h("p", { class: "turn" },
        before !== null && h("button", { type: "button", "data-key": "newest", click: () => turn(null) }, "Newest"),
        lowest > 0 && h("button", { type: "button", "data-key": "older", click: () => turn(lowest) }, "Older")));
  }

  function backfills() {
    if (facts.backfills.length === 0) return null;
    return section("Backfills", h("table", {}, h("tbody", {}, facts.backfills.map((b) => {
      const landed = b.chunks.filter(([done]) => done).length;
      return h("tr", {}, h("th", { scope: "row" }, `backfill ${b.number}`),
        h("td", {}, b.outcome ?? "running, or waiting to be resumed"),
        h("td", {}, h("progress", { max: b.chunks.length, value: landed }), ` ${landed} of ${b.chunks.length} chunks`),
        h("td", {}, b.into === "new" ? "into a new table" : "into the table"), h("td", {}, ago(b.at)),
        h("td", {}, b.reason), h("td", { class: "quiet" }, b.requested_by));
    }))));
  }

  function generations() {
    if (facts.generations.length === 0) return null;
    return section("Generations", h("table", {}, h("tbody", {}, facts.generations.map((g) =>
      h("tr", {}, h("th", { scope: "row" }, `generation ${g.generation}`), h("td", {}, `from ${g.origin}`), h("td", {}, ago(g.at)),
        h("td", {}, g.reason), h("td", { class: "quiet" }, g.started_by),
        h("td", {}, g.skipped.map(([t, n, a, z]) => `gave up ${t}-${n}:${a}-${z}`).join(", ")))))));
  }

  function quarantine() {
    return later("Quarantine", slow.quarantine, (reasons) => reasons.length === 0
      ? h("p", { class: "quiet" }, "Nothing is quarantined.")
      : reasons.map((r) => h("details", { "data-open": `q ${r.reason}` },
          h("summary", {}, h("strong", {}, number(r.records)), ` ${r.reason} · ${becameOf(r)} · newest of `, r.newest ? new Date(r.newest).toLocaleString() : "–"),
          r.samples.map((sample) => h("figure", {},
            h("figcaption", { class: "quiet" }, `${sample.topic}-${sample.partition} offset ${number(sample.offset)}, batch ${sample.batch_id}`),
            h("pre", {}, sample.value ?? "null"))))));
  }

  const becameOf = (r) => ["pending", "replayed", "discarded", "applied"].filter((name) => r[name])
    .map((name) => `${number(r[name])} ${name === "applied" ? "applied since" : name}`).join(", ");

  function versions() {
    return later("Table versions", slow.versions, (list) => list.length === 0
      ? h("p", { class: "quiet" }, "There is no table yet.")
      : h("div", { class: "scroll" }, h("table", {}, h("tbody", {}, list.map((v) => h("tr", {},
          h("th", { scope: "row" }, number(v.version)), h("td", {}, v.operation),
          h("td", { class: v.foreign ? "foreign" : null }, v.by, v.foreign && " (not by Lakemark)"),
          h("td", { class: "number" }, v.rows === null ? "" : `${number(v.rows)} rows`), h("td", {}, ago(v.at))))))));
  }

  function quality() {
    return later("Quality", slow.quality, (q) => q.judgements.length === 0
      ? h("p", { class: "quiet" }, q.suite ? `Suite ${q.suite} has judged no batch yet.` : "The pipeline file names no suite.")
      : [h("p", {}, `Suite ${q.suite}, the newest ${number(q.judgements.length)} judgements:`), judgementStrip(q.judgements),
        h("div", { class: "scroll" }, h("table", {},
          h("thead", {}, h("tr", {}, ["Rule", "Policy", "Holds", "Broken", "Observed"].map((name) => h("th", { scope: "col" }, name)))),
          h("tbody", {}, q.rules.map((r) => h("tr", {},
            h("th", { scope: "row" }, r.rule), h("td", {}, r.policy),
            h("td", { class: r.success ? null : "problem" }, r.success ? "yes" : "no"),
            h("td", { class: "number" }, r.unexpected_count === null ? "" : `${number(r.unexpected_count)} of ${number(r.element_count)}`),
            h("td", {}, r.observed === null ? "" : String(r.observed)))))))]);
  }

  function later(title, answer, drawn) {
    if (answer === null) return section(title, h("p", { class: "quiet" }, "Loading …"));
    return section(title, answer.problem ? h("p", { class: "problem" }, answer.problem) : drawn(answer.facts));
  }

  function draw() {
    const focused = document.activeElement?.dataset?.key;
    const open = new Set([...root.querySelectorAll("details[open]")].map((d) => d.dataset.open));
    root.replaceChildren(...[head(), why(), figures(), offsets(), tables(), batchList(), backfills(), quarantine(), quality(), versions(), generations()]
      .filter(Boolean));
    for (const d of root.querySelectorAll("details")) d.open = open.has(d.dataset.open);
    if (focused) root.querySelector(`[data-key="${CSS.escape(focused)}"]`)?.focus();
  }

  return {
    async refresh(ask) {
      const newest = before === null ? "" : `&before=${before}`;
      [facts, batches] = await Promise.all([ask(path), ask(`${path}/batches?limit=${PAGE}${newest}`)]);
      await Promise.all((rounds++ % SLOW ? [] : Object.keys(slow)).map(async (part) => {
        slow[part] = await ask(`${path}/${part}`).then((facts) => ({ facts }), (error) => ({ problem: error.message }));
      }));
      const told = JSON.stringify([facts, batches, slow], (key, value) => (key === "lag_seconds" ? Math.floor(value) : value));
      if (told !== shown && mayDraw()) {
        draw();
        shown = told;
      }
    },
  };
}

function section(title, ...children) {
  return h("section", { "aria-label": title }, h("h2", {}, title), ...children);
}
