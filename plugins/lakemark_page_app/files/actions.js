// Actions: each starts a DAG through Airflow's API, as the user who is logged in, and opens its run.

import { airflowLink, ask, h, visit } from "./dom.js";

const BACKFILL = {
  batches: { what: "batches", label: "Batches", hint: "3-7, first and last inclusive" },
  ranges: { what: "offset ranges", label: "Offset ranges", hint: "orders-0:100-200, END exclusive; one per line" },
  span: { what: "a time span", label: "A time span", hint: "" },
};

export function actions(facts, batch) {
  const reset = `${facts.dag_id}__reset`, backfill = `${facts.dag_id}__backfill`;
  return h("div", { class: "actions" },
    h("button", { type: "button", "data-key": "backfill", click: () => askBackfill(backfill, batch) },
      batch ? `Backfill batch ${batch.batch_id} …` : "Backfill …"),
    h("button", { type: "button", "data-key": "replay", click: () => askReplay(backfill) }, "Replay quarantine …"),
    h("button", { type: "button", "data-key": "reset", click: () => askReset(reset, facts.name) }, "Reset …"),
    airflowLink(`dags/${facts.dag_id}`, { class: "button" }, "Runs"));
}

function askBackfill(dagId, batch) {
  const kind = h("select", { name: "kind", change: show }, Object.entries(BACKFILL).map(([value, k]) => h("option", { value }, k.label)));
  const text = h("textarea", { name: "text", rows: 2, required: true, "aria-label": "Which" });
  if (batch) text.value = `${batch.batch_id}-${batch.batch_id}`;
  const since = h("input", { type: "datetime-local", name: "since" }), until = h("input", { type: "datetime-local", name: "until" });
  const span = h("div", { hidden: true }, field("From, inclusive", since), field("To, exclusive; empty: now", until));
  const hint = h("p", { class: "quiet" });
  const preview = h("input", { type: "checkbox", name: "preview" });
  const reason = h("input", { name: "reason", maxlength: 500 });

  function show() {
    const byTime = kind.value === "span";
    span.hidden = !byTime;
    text.hidden = byTime;
    text.required = !byTime;
    hint.textContent = BACKFILL[kind.value].hint;
  }
  show();
  const moment = (input) => (input.value ? new Date(input.value).toISOString() : null);
  dialog("Backfill", "Start", dagId, [field("What", kind), text, span, hint,
    h("label", { class: "check" }, preview, " Only preview: say what would be read, and stop"), field("Reason, for the ledger", reason)],
  () => ({
    what: BACKFILL[kind.value].what,
    ...(kind.value === "batches" && { batches: text.value.trim() }),
    ...(kind.value === "ranges" && { ranges: text.value.split(/\s+/).filter(Boolean) }),
    ...(kind.value === "span" && { since: moment(since), until: moment(until) }),
    only_preview: preview.checked,
    reason: reason.value || null,
  }));
}

function askReplay(dagId) {
  const rule = h("input", { name: "rule" }), reason = h("input", { name: "reason", maxlength: 500 });
  const preview = h("input", { type: "checkbox", name: "preview" });
  dialog("Replay the quarantine", "Start", dagId, [
    h("p", {}, "Pending records are decoded and judged again, by the current pipeline file and suite. Good records are merged, but never over newer rows. The others stay pending."),
    field("Only records that broke this rule (empty: all)", rule),
    h("label", { class: "check" }, preview, " Only preview: say how many records these are, and stop"), field("Reason, for the ledger", reason)],
  () => ({ what: "the quarantine", rule: rule.value.trim() || null, only_preview: preview.checked, reason: reason.value || null }));
}

function askReset(dagId, name) {
  const from = h("input", { name: "from", value: "committed", required: true, pattern: "committed|earliest|[0-9]+" });
  const reason = h("input", { name: "reason", required: true, maxlength: 500 });
  const sure = h("input", { name: "sure", required: true, pattern: name.replaceAll(/[^a-z0-9_]/g, "") });
  dialog("Reset", "Begin a new generation", dagId, [
    h("p", {}, "Begins a new generation. Nothing of the current generation can land any more. Reading goes on from where you choose. Rows stay."),
    field("Read on from: committed, earliest, or a batch's id", from), field("Reason, for the ledger", reason), field(`Type ${name} to confirm`, sure)],
  () => ({ from: from.value, reason: reason.value }));
}

function dialog(title, verb, dagId, fields, conf) {
  const problem = h("p", { class: "problem", role: "alert", hidden: true });
  const box = h("dialog", { "aria-label": title, close: () => box.remove() });
  const start = h("button", { class: "primary" }, verb);
  const form = h("form", { submit: send }, h("h2", {}, title), fields, problem,
    h("p", { class: "buttons" }, start, h("button", { type: "button", click: () => box.close() }, "Cancel"),
      airflowLink(`dags/${dagId}`, { class: "quiet" }, "Airflow's own form")));

  async function send(event) {
    event.preventDefault();
    start.disabled = true;
    try {
      const run = await ask(`../api/v2/dags/${encodeURIComponent(dagId)}/dagRuns`, {
        method: "POST",
        headers: { "Content-Type": "application/json" },
        body: JSON.stringify({ logical_date: null, conf: conf() }),
      });
      visit(new URL(`../dags/${dagId}/runs/${encodeURIComponent(run.dag_run_id)}`, new URL(".", location.href)).href);
    } catch (error) {
      problem.textContent = error.message;
      problem.hidden = false;
      start.disabled = false;
    }
  }
  box.append(form);
  document.body.append(box);
  box.showModal();
}

const field = (label, input) => h("label", {}, label, input);
