// One pipeline: fetches what the sections show, and draws them.

import { actions } from "./actions.js";
import { batchSection, batchState } from "./batches.js";
import { dataSection } from "./data.js";
import { age, ago, airflowLink, asOf, h, mayDraw, number, plural, saw, stateMark } from "./dom.js";
import { DISPOSITIONS, dispositions } from "./drawing.js";
import { offsetSection } from "./offsets.js";
import { savepoints } from "./savepoints.js";
import { sinks } from "./sinks.js";
import { backfills, generations, lineage, proofs, quality, quarantine, versions } from "./tables.js";
import { timeline, trends } from "./trends.js";

const PAGE = 40; // batches
const PAUSE = { least: 5000, share: 5, refused: 60_000 }; // between two fetches of a part: ms, and times as long as one took
const MILD = new Set(["paused", "unproven", "new"]); // states whose reason is no problem
const SLOW = ["tables", "quarantine", "versions", "quality", "trends", "timeline", "columns", "rows", "lineage", "savepoints", "sinks"];

export function pipelineView(root, name) {
  const path = `api/pipelines/${encodeURIComponent(name)}`;
  let facts = null, shown = "";
  // What a person has chosen. It outlives every drawing.
  const chosen = { before: null, batch: null, hours: 24, ranges: new Map(), versions: null, compared: null };
  const slow = Object.fromEntries(SLOW.map((part) => [part, { answer: null, again: 0 }]));

  const view = {
    name, path, chosen,
    get facts() { return facts; },
    part: (part) => slow[part].answer,
    redraw: () => draw(),
    refetch(...parts) {
      for (const part of parts) Object.assign(slow[part], { answer: null, again: 0 });
      document.dispatchEvent(new Event("lakemark:refresh"));
    },
    turn(to) {
      chosen.before = to;
      chosen.batch = null;
      document.dispatchEvent(new Event("lakemark:refresh"));
    },
    select(id) {
      chosen.batch = chosen.batch === id ? null : id;
      draw();
    },
  };

  function head() {
    return h("header", {},
      h("nav", {}, h("a", { href: "#/", "data-key": "all" }, "Pipelines"), " / "),
      h("h1", { "data-figure": "ledger" }, facts.name, " ", stateMark(facts.state), " ", asOf(name, "ledger")),
      actions(view));
  }

  function why() {
    const text = facts.why || (facts.kafka_problem && `Kafka: ${facts.kafka_problem}`);
    if (!text) return null;
    const [what, todo] = text.split("What to do: ");
    return h("div", { class: MILD.has(facts.state) ? "note" : "problem" }, h("p", {}, what), todo && h("p", {}, h("strong", {}, "What to do: "), todo),
      facts.failed_run && airflowLink(`dags/${facts.failed_dag}/runs/${encodeURIComponent(facts.failed_run)}`, {}, "The run that failed"));
  }

  function figures() {
    const f = facts, q = f.quarantine, of = f.generation > 1 ? ` of generation ${number(f.generation)}` : "";
    const cells = [
      ["Lag", "kafka", [f.lag_records === null ? "unknown" : plural(f.lag_records, "record"), f.lag_records ? `, for ${age(f.lag_seconds)}` : ""]],
      ["Last commit", "ledger", [ago(f.committed_at)]],
      ["Table", "ledger", [f.table, h("br"), "version ", number(f.table_version), " with the last commit"], "wide"],
      ["Batches" + of, "ledger", [number(f.commits)]],
      ["Quarantine, by record", "quarantine", q ? [plural(q.waiting, "record"), q.waiting === 1 ? " waits" : " wait", h("br"), `${number(q.ever)} ever`] : ["–"]],
      ["Runs", null, [f.schedule, f.paused && ", paused"], "wide"],
      ["Records" + of, "ledger", [dispositions(f.records), " ", DISPOSITIONS.filter((kind) => f.records[kind])
        .map((kind) => `${number(f.records[kind])} ${kind}`).join(", ") || "none yet"], "wide"],
    ];
    return h("dl", { class: "figures" }, cells.map(([term, source, value, width]) =>
      h("div", { class: width, "data-figure": source }, h("dt", {}, term, " ", source && asOf(name, source)), h("dd", {}, value))));
  }

  function draw() {
    const focused = document.activeElement?.dataset?.key;
    const open = new Set([...root.querySelectorAll("details[open]")].map((d) => d.dataset.open));
    root.replaceChildren(...[head(), why(), figures(), offsetSection(view, batchState), trends(view), batchSection(view), quarantine(view),
      backfills(view), dataSection(view), proofs(view), quality(view), sinks(view), savepoints(view), versions(view), lineage(view), timeline(view), generations(view)].filter(Boolean));
    for (const d of root.querySelectorAll("details")) d.open = open.has(d.dataset.open);
    if (focused) root.querySelector(`[data-key="${CSS.escape(focused)}"]`)?.focus({ preventScroll: true });
  }

  async function fetchPart(ask, part) {
    const began = Date.now();
    if (began < slow[part].again) return;
    const query = part === "trends" ? `?hours=${chosen.hours}` : "";
    const answer = await ask(`${path}/${part}${query}`).then((facts) => ({ facts }), (error) => ({ problem: error.message, status: error.status }));
    const pause = answer.status === 403 ? PAUSE.refused : Math.max(PAUSE.least, PAUSE.share * (Date.now() - began));
    slow[part] = { answer, again: Date.now() + pause };
    saw(name, { [part]: (Date.now() - began) / 1000 });
  }

  return {
    forget: () => (shown = ""),
    async refresh(ask) {
      const newest = chosen.before === null ? "" : `&before=${chosen.before}`;
      facts = await ask(`${path}?limit=${PAGE}${newest}`);
      saw(name, facts.ages);
      if (shown === "" && mayDraw()) draw();
      await Promise.all(SLOW.map((part) => fetchPart(ask, part)));
      const answers = SLOW.map((part) => slow[part].answer);
      const told = JSON.stringify([facts, answers], (key, value) => (key === "lag_seconds" ? Math.floor(value) : key === "ages" ? null : value));
      if (told !== shown && mayDraw()) {
        draw();
        shown = told;
      }
    },
  };
}
