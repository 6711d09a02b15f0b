// Actions: each asks Airflow's API, as the user who is logged in. Most start a DAG, and open its run.

import { airflowLink, h, send, visit } from "./dom.js";

const MOMENT = "\\s*\\d{4}-\\d{2}-\\d{2}([ T]\\d{2}:\\d{2}(:\\d{2})?)?\\s*"; // browsers' own fields do not write ISO 8601
const AIRFLOW = "../api/v2/dags/";
const BACKFILL = {
  batches: { what: "batches", label: "Batches", hint: "3-7, first and last inclusive" },
  ranges: { what: "offset ranges", label: "Offset ranges", hint: "orders-0:100-200, END exclusive; one per line" },
  span: { what: "a time span", label: "A time span", hint: "like 2026-11-25 or 2026-11-25 08:00, in your own time zone" },
};

export function actions(view) {
  const { facts, chosen } = view;
  const button = (key, text, click) => h("button", { type: "button", "data-key": key, click }, text);
  return h("div", { class: "actions" },
    button("run", "Run now", () => askRun(view)),
    button("pause", facts.paused ? "Unpause" : "Pause", () => askPause(view)),
    button("backfill", chosen.batch === null ? "Backfill …" : `Backfill batch ${chosen.batch} …`,
      () => askBackfill(view, chosen.batch === null ? {} : { batches: `${chosen.batch}-${chosen.batch}` })),
    button("replay", "Replay quarantine …", () => askReplay(view)),
    button("discard", "Discard …", () => askDiscard(view)),
    button("audit", "Audit …", () => askAudit(view)),
    button("savepoint", "Savepoint …", () => askSavepoint(view)),
    button("reset", "Reset …", () => askReset(view)),
    airflowLink(`dags/${facts.dag_id}`, { class: "button" }, "Runs"));
}

function askRun(view) {
  dialog("Run now", "Start", view, {
    about: [h("p", {}, "Starts a run: it merges all that waits in Kafka now."),
      view.facts.paused && h("p", { class: "note" }, "The DAG is paused: the run waits until somebody unpauses it.")],
    dagId: view.facts.dag_id, conf: () => ({}),
  });
}

function askPause(view) {
  const { facts } = view, { paused } = facts;
  dialog(paused ? "Unpause" : "Pause", paused ? "Unpause" : "Pause", view, {
    about: [h("p", {}, paused ? "Runs start again by the schedule." : "No run starts by itself any more. A run that is active goes on to its end.")],
    dagId: facts.dag_id,
    act: () => send(AIRFLOW + encodeURIComponent(facts.dag_id), "PATCH", { is_paused: !paused }),
  });
}

/** Args: given: what the form begins with: `batches`, a text; or `ranges`, texts. */
export function askBackfill(view, given = {}) {
  const kind = h("select", { name: "kind", change: show }, Object.entries(BACKFILL).map(([value, k]) => h("option", { value }, k.label)));
  const text = h("textarea", { name: "text", rows: 2, required: true, "aria-label": "Which" });
  if (given.ranges) kind.value = "ranges";
  text.value = given.ranges?.join("\n") ?? given.batches ?? "";
  const [since, until] = ["since", "until"].map((name) => h("input", { name, placeholder: "2026-11-25 08:00", pattern: MOMENT }));
  const span = h("div", { hidden: true }, field("From, inclusive", since), field("To, exclusive; empty: now", until));
  const hint = h("p", { class: "quiet" });

  function show() {
    const byTime = kind.value === "span";
    span.hidden = !byTime;
    text.hidden = byTime;
    text.required = !byTime;
    hint.textContent = BACKFILL[kind.value].hint;
  }
  show();
  const moment = (input) => (input.value ? localMoment(input.value.trim()).toISOString() : null);
  dialog("Backfill", "Start", view, {
    about: [field("What", kind), text, span, hint], sinks: true, reason: {}, preview: true, dagId: `${view.facts.dag_id}__backfill`,
    conf: () => ({
      what: BACKFILL[kind.value].what,
      ...(kind.value === "batches" && { batches: text.value.trim() }),
      ...(kind.value === "ranges" && { ranges: text.value.split(/\s+/).filter(Boolean) }),
      ...(kind.value === "span" && { since: moment(since), until: moment(until) }),
    }),
  });
}

function askReplay(view) {
  const rule = h("input", { name: "rule" });
  dialog("Replay the quarantine", "Start", view, {
    about: [
      h("p", {}, "Pending records are decoded and judged again, by the current pipeline file and suite. Good records are merged, but never over newer rows. The others stay pending."),
      field("Only records that broke this rule (empty: all)", rule)],
    sinks: true, reason: {}, preview: true, dagId: `${view.facts.dag_id}__backfill`,
    conf: () => ({ what: "the quarantine", rule: rule.value.trim() || null }),
  });
}

function askDiscard(view) {
  const rule = h("input", { name: "rule" });
  const ranges = h("textarea", { name: "ranges", rows: 2 });
  dialog("Discard quarantined records", "Discard", view, {
    about: [
      h("p", {}, "Pending records are marked as not wanted: nothing replays them. The quarantine keeps them, with your name and reason."),
      field("Only records that broke this rule (empty: all that wait)", rule),
      field("Only these offsets, like orders-0:100-200 (empty: all)", ranges)],
    reason: { required: true }, preview: true, dagId: `${view.facts.dag_id}__backfill`,
    conf: () => ({ what: "discard quarantined records", rule: rule.value.trim() || null, ranges: ranges.value.split(/\s+/).filter(Boolean) }),
    previewed: (conf) => ({ ...conf, what: "the quarantine" }), // the same records
  });
}

function askAudit(view) {
  const deep = h("input", { type: "checkbox", name: "deep" });
  dialog("Audit", "Start", view, {
    about: [h("p", {}, "Proves from Kafka, the ledger and the tables' logs that every batch was applied once, and adds up. The run's note says what was found."),
      h("label", { class: "check" }, deep, " Deep: compute the tables again from Kafka's records, and compare every row")],
    dagId: `${view.facts.dag_id}__audit`, conf: () => ({ deep: deep.checked }),
  });
}

function askReset(view) {
  const { name, dag_id: dagId } = view.facts;
  const from = h("input", { name: "from", value: "committed", required: true, pattern: "committed|earliest|[0-9]+" });
  const sure = h("input", { name: "sure", required: true, pattern: name.replaceAll(/[^a-z0-9_]/g, "") });
  dialog("Reset", "Begin a new generation", view, {
    about: [
      h("p", {}, "Begins a new generation. Nothing of the current generation can land any more. Reading goes on from where you choose. Rows stay."),
      field("Read on from: committed, earliest, or a batch's id", from), field(`Type ${name} to confirm`, sure)],
    sinks: true, reason: { required: true }, dagId: `${dagId}__reset`, conf: () => ({ from: from.value }),
  });
}

/** Args: given: what the form begins with: `checkpoint`, its name. */
export function askSavepoint(view, given = {}) {
  const name = h("input", { name: "savepoint", required: true, maxlength: 63, pattern: "[A-Za-z0-9][A-Za-z0-9_.\\-]*" });
  const copy = h("input", { type: "checkbox", name: "copy" });
  dialog("Savepoint", "Create", view, {
    about: [h("p", {}, given.checkpoint ? `Keeps checkpoint ${given.checkpoint}, by a name, until somebody drops it.` : "Keeps the newest checkpoint, by a name, until somebody drops it."),
      field("Name, like before-migration", name),
      h("label", { class: "check" }, copy, " Copy: data files of its own, which no VACUUM of the tables reaches")],
    reason: {}, preview: "savepoint-preview", dagId: `${view.facts.dag_id}__savepoint`,
    conf: () => ({ what: "create a savepoint", savepoint: name.value.trim(), checkpoint: given.checkpoint ?? null, copy: copy.checked }),
  });
}

/** Args: to: `savepoint` or `checkpoint`, its name. */
export function askRestore(view, to) {
  const name = to.savepoint ?? to.checkpoint, kind = to.savepoint ? "savepoint" : "checkpoint";
  const sure = h("input", { name: "sure", required: true, pattern: view.name.replaceAll(/[^a-z0-9_]/g, "") });
  const keep = h("input", { type: "checkbox", name: "keep_file" });
  dialog(`Go back to ${name}`, "Go back", view, {
    about: [h("p", {}, "All tables and the offsets go back together. What came since is undone, and its records are read again."),
      field(`Type ${view.name} to confirm`, sure),
      ...(to.savepoint ? [h("label", { class: "check" }, keep, " Keep file: go on by the pipeline's files as they are, also if they say another thing now")] : [])],
    sinks: true, reason: { required: true }, preview: "savepoint-preview", dagId: `${view.facts.dag_id}__savepoint`,
    conf: () => ({ what: `go back to a ${kind}`, [kind]: name, keep_file: keep.checked }),
  });
}

export function askOfSavepoint(view, what, savepoint, text) {
  dialog(`${what[0].toUpperCase()}${what.slice(1)}: ${savepoint}`, what.split(" ")[0] === "drop" ? "Drop" : "Start", view, {
    about: [h("p", {}, text)], preview: "savepoint-preview", dagId: `${view.facts.dag_id}__savepoint`,
    conf: () => ({ what, savepoint }),
  });
}

export function cancelBackfill(view, backfill) {
  dialog(`Cancel backfill ${backfill.number}`, "Cancel the backfill", view, {
    about: [h("p", {}, "No more chunks of it can land. What has landed stays.")],
    reason: {}, dagId: `${view.facts.dag_id}__backfill`, conf: () => ({ what: "cancel a backfill", backfill: backfill.number }),
  });
}

/** Runs the chunks that have not landed again: their tasks, of the backfill's own run, and those that follow them. */
export function resumeBackfill(view, backfill) {
  const dagId = `${view.facts.dag_id}__backfill`, [by, runId] = backfill.requested_by.split(" ");
  const isAirflows = by === "airflow" && runId;
  const waiting = backfill.chunks.flatMap(([landed], n) => (landed ? [] : [["chunk", n]]));
  dialog(`Resume backfill ${backfill.number}`, "Resume", view, {
    about: isAirflows
      ? [h("p", {}, "Runs the chunks that have not landed again. What has landed is not applied twice.")]
      : [h("p", {}, "A command planned this backfill, so no run of Airflow's has its chunks. This runs the rest:"),
        h("pre", {}, `lakemark backfill ${view.name} --resume ${backfill.number}`)],
    dagId, run: isAirflows ? runId : null,
    act: isAirflows && (() => send(`${AIRFLOW}${encodeURIComponent(dagId)}/clearTaskInstances`, "POST",
      { dry_run: false, dag_run_id: runId, task_ids: waiting.length ? waiting : ["finish"], only_failed: false,
        include_downstream: true, reset_dag_runs: true })),
  });
}

/** A form in a dialog.
    Args: about: what stands in it. sinks: whether it asks what sinks get, where there are some. reason: a field for the ledger's reason, if given. preview: whether what would be read
    can be seen first; a text: where to ask for that. dagId, conf: the DAG that is started, and its form. act: what is done instead; the page stays.
    run: the run that it opens then. */
function dialog(title, verb, view, { about, sinks, reason, preview, dagId, conf, previewed = (form) => form, act, run }) {
  const problem = h("p", { class: "problem", role: "alert", hidden: true });
  const seen = h("pre", { class: "preview", hidden: true, "aria-label": "Preview", "aria-live": "polite" });
  const box = h("dialog", { "aria-label": title, close: () => box.remove() });
  const why = reason && h("input", { name: "reason", maxlength: 500, required: reason.required === true });
  const choices = sinks ? view.facts.sink_choices : [];
  const gets = choices.length > 0 && h("select", { name: "sinks" }, choices.map((choice) => h("option", {}, choice)));
  const filled = () => ({ ...conf(), ...(gets && { sinks: gets.value }) });
  const start = h("button", { class: "primary" }, verb), canAct = act || conf;
  const look = preview && h("button", { type: "button", click: showPreview }, "Preview");
  const form = h("form", { submit: go }, h("h2", {}, title), about,
    gets && field(`What sinks get of it (${view.facts.sinks.join(", ")})`, gets), why && field("Reason, for the ledger", why), seen, problem,
    h("p", { class: "buttons" }, canAct && start, look, h("button", { type: "button", click: () => box.close() }, canAct ? "Cancel" : "Close"),
      conf && airflowLink(`dags/${dagId}`, { class: "quiet" }, "Airflow's own form")));

  async function attempt(button, work) {
    button.disabled = true;
    problem.hidden = true;
    try {
      await work();
    } catch (error) {
      problem.textContent = error.message;
      problem.hidden = false;
    }
    button.disabled = false;
  }

  function showPreview() {
    return attempt(look, async () => {
      const { lines } = await send(`${view.path}/${preview === true ? "preview" : preview}`, "POST", previewed(filled()));
      seen.textContent = lines.join("\n");
      seen.hidden = false;
    });
  }

  function go(event) {
    event.preventDefault();
    return attempt(start, async () => {
      if (act) {
        await act();
        box.close();
        if (run) open(run);
        else view.refetch();
        return;
      }
      const given = { ...filled(), ...(why && { reason: why.value || null }) };
      const started = await send(`${AIRFLOW}${encodeURIComponent(dagId)}/dagRuns`, "POST", { logical_date: null, conf: given });
      box.close();
      open(started.dag_run_id);
    });
  }

  const open = (id) => visit(new URL(`../dags/${dagId}/runs/${encodeURIComponent(id)}`, new URL(".", location.href)).href);
  box.append(form);
  document.body.append(box);
  box.showModal();
}

/** A time in the reader's zone; midnight if only a day is given. Throws an Error if there is no such time. */
function localMoment(text) {
  const found = new Date(text.length > 10 ? text.replace(" ", "T") : `${text}T00:00`);
  if (Number.isNaN(found.getTime())) throw new Error(`${text} is no time: write it like 2026-11-25 08:00`);
  return found;
}

const field = (label, input) => h("label", {}, label, input);
