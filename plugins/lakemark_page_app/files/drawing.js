// Drawings: strips for offsets and batches, bars for a batch's records and seconds, columns for trends.

import { h, iso, number, s } from "./dom.js";

const WIDTH = 1000; // in a strip's own coordinates; the strip fills the width of the page
export const DISPOSITIONS = ["applied", "superseded", "stale", "filtered", "routed", "quarantined"];
export const PHASES = ["session", "read", "archive", "decode", "judge", "quarantine", "history", "routes", "merge", "upkeep",
  "settle"];

/** The pieces of a partition's strip: kind, start, end and text; those of backfills lie below the others. */
export function pieces(partition, failed, backfills) {
  const { first, log_start: start, log_end: end, committed, planned } = partition;
  const rest = Math.max(planned ?? committed ?? start ?? 0, start ?? 0);
  return [
    { kind: "committed", start: first ?? start, end: committed, text: "committed" },
    { kind: failed ? "failed" : "planned", start: committed, end: planned, text: failed ? "planned, failed" : "planned" },
    { kind: "waiting", start: rest, end, text: "waiting" },
    { kind: "expired", start: first ?? start, end: start, text: "expired in Kafka", y: 0, height: 5 },
    ...backfills.map((b) => ({ kind: b.landed ? "backfilled" : "backfilling", start: b.start, end: b.end,
      text: `backfill ${b.number}, ${b.landed ? "landed" : "not landed"}`, y: 20, height: 4 })),
  ].filter((piece) => piece.start !== null && piece.end !== null && piece.end > piece.start);
}

/** The lowest and the highest offset of a partition's strip; null if none is known. */
export function bounds(partition) {
  const known = [partition.first, partition.log_start, partition.committed, partition.planned, partition.log_end];
  const numbers = known.filter((n) => n !== null);
  return numbers.length === 0 ? null : [Math.min(...numbers), Math.max(...numbers, Math.min(...numbers) + 1)];
}

/** A partition's offsets: expired, committed, planned or failed, and waiting; backfills are below. A range can be chosen
    by drawing over it. Args: chosen: [start, end] or undefined. choose: gets the range that was drawn. */
export function partitionStrip(partition, drawn, chosen, choose) {
  const [low, high] = bounds(partition);
  const x = (offset) => ((Math.min(Math.max(offset, low), high) - low) / (high - low)) * WIDTH;
  const box = (kind, start, end, y, height, text) =>
    s("rect", { class: kind, x: x(start), y, width: Math.max(1.5, x(end) - x(start)), height },
      s("title", {}, `${text}: ${number(start)} to ${number(end)}`));
  const marked = s("rect", { class: "chosen", y: 0, height: 24, hidden: !chosen,
    x: chosen ? x(chosen[0]) : 0, width: chosen ? Math.max(1.5, x(chosen[1]) - x(chosen[0])) : 0 });
  const strip = s("svg", { class: "strip choosable", viewBox: `0 0 ${WIDTH} 24`, preserveAspectRatio: "none", role: "img",
      "aria-label": `${partition.topic}-${partition.partition}: committed to ${number(partition.committed)} of ${number(partition.log_end)}` },
    drawn.map((p) => box(p.kind, p.start, p.end, p.y ?? 0, p.height ?? 18, p.text)), marked);
  let from = null;
  const offset = (event) => {
    const { left, width } = strip.getBoundingClientRect();
    return low + Math.round(Math.min(1, Math.max(0, (event.clientX - left) / width)) * (high - low));
  };
  const range = (event) => [Math.min(from, offset(event)), Math.max(from, offset(event))];
  strip.addEventListener("pointerdown", (event) => {
    from = offset(event);
    strip.setPointerCapture(event.pointerId);
  });
  strip.addEventListener("pointermove", (event) => {
    if (from === null) return;
    const [start, end] = range(event);
    marked.removeAttribute("hidden");
    marked.setAttribute("x", x(start));
    marked.setAttribute("width", x(end) - x(start));
  });
  strip.addEventListener("pointerup", (event) => {
    const [start, end] = range(event);
    from = null;
    if (end > start) choose([start, end]);
  });
  return strip;
}

/** The listed batches as pieces of the partition: they show which batch read which offsets. Null if none did. */
export function batchStrip(partition, batches, stateOf, selected, select) {
  const mine = batches.flatMap((batch) => batch.ranges
    .filter(([topic, number]) => topic === partition.topic && number === partition.partition)
    .map(([, , start, end]) => ({ batch, start, end })));
  if (mine.length === 0) return null;
  const low = Math.min(...mine.map((m) => m.start)), high = Math.max(...mine.map((m) => m.end));
  const x = (offset) => ((offset - low) / (high - low)) * WIDTH;
  const label = `batches ${mine.at(-1).batch.batch_id} to ${mine[0].batch.batch_id}, offsets ${number(low)} to ${number(high)}`;
  return [
    s("svg", { class: "strip", viewBox: `0 0 ${WIDTH} 16`, preserveAspectRatio: "none", role: "img", "aria-label": label },
      mine.map(({ batch, start, end }) =>
        s("rect", { class: `${stateOf(batch)} cut ${batch.batch_id === selected ? "selected" : ""}`, y: 1, height: 14,
            x: x(start), width: Math.max(1.5, x(end) - x(start)), click: () => select(batch.batch_id) },
          s("title", {}, `batch ${batch.batch_id}: ${number(start)} to ${number(end)}`)))),
    h("div", { class: "scale" }, h("span", {}, label))];
}

/** The quality suite's verdicts, the newest on the right. A bar is higher if more rules were broken. */
export function judgementStrip(judgements) {
  const width = WIDTH / Math.max(judgements.length, 30), most = Math.max(1, ...judgements.map((j) => j.broken));
  return s("svg", { class: "strip", viewBox: `0 0 ${WIDTH} 24`, preserveAspectRatio: "none", role: "img",
      "aria-label": `${judgements.filter((j) => j.outcome === "passed").length} of ${judgements.length} judgements passed` },
    judgements.map((j, n) => {
      const height = 6 + (18 * j.broken) / most;
      const of = j.batch_id === null ? `version ${j.table_version}` : `batch ${j.batch_id}`;
      return s("rect", { class: `cut outcome-${j.outcome}`, x: n * width, y: 24 - height, width, height },
        s("title", {}, `${of}: ${j.outcome}, ${number(j.broken)} rules broken, ${iso(j.at)}`));
    }));
}

/** Counts by disposition: one bar with parts in proportion, and a title with the numbers. */
export function dispositions(counts) {
  if (!counts) return "–";
  const title = DISPOSITIONS.filter((name) => counts[name]).map((name) => `${number(counts[name])} ${name}`).join(", ");
  return bar(DISPOSITIONS.map((name) => [name, counts[name]]), counts.read + (counts.added ?? 0) || 1, title || "no records");
}

/** Seconds by phase, in proportion to `most`, the slowest batch of the list. */
export function phases(seconds, most) {
  const found = PHASES.filter((phase) => seconds[phase] !== undefined);
  const title = found.map((phase) => `${phase} ${seconds[phase].toFixed(1)} s`).join(", ");
  return bar(found.map((phase) => [phase, seconds[phase]]), most || 1, title);
}

export const total = (seconds) => Object.values(seconds).reduce((sum, n) => sum + n, 0);

function bar(parts, whole, title) {
  let x = 0;
  const drawn = parts.filter(([, size]) => size > 0).map(([kind, size]) => {
    const width = (size / whole) * 100;
    const piece = s("rect", { class: kind, x, y: 0, width, height: 10 });
    x += width;
    return piece;
  });
  return s("svg", { class: "bar", viewBox: "0 0 100 10", preserveAspectRatio: "none", role: "img", "aria-label": title },
    s("title", {}, title), drawn);
}

/** A figure over time: one column per point; gaps where it is not known. Args: values: a number or null, and a text. */
export function columns(title, values, unit) {
  const known = values.map(({ value }) => value).filter((value) => value !== null);
  const most = Math.max(...known, 0), width = WIDTH / values.length;
  const newest = known.at(-1);
  const top = known.length === 0 ? "nothing in this time" : `at most ${shown(most)}${unit}, ${shown(newest)}${unit} in the newest column`;
  return h("figure", { class: "trend" }, h("figcaption", {}, h("strong", {}, title), " ", h("span", { class: "quiet" }, top)),
    s("svg", { viewBox: `0 0 ${WIDTH} 60`, preserveAspectRatio: "none", role: "img", "aria-label": `${title}: ${top}` },
      values.map(({ value, text, kind }, n) => value === null ? null :
        s("rect", { class: kind ?? "trend", x: n * width, width: width - 2, y: 60 - height(value, most), height: height(value, most) },
          s("title", {}, text)))),
    values.length > 0 && h("div", { class: "scale" }, h("span", {}, iso(values[0].at).slice(0, 16)), h("span", {}, "now")));
}

const height = (value, most) => (most > 0 ? Math.max(1, (value / most) * 58) : 1);
const shown = (n) => (Number.isInteger(n) || n >= 100 ? number(Math.round(n)) : n >= 1 ? n.toFixed(1) : n.toPrecision(2));

/** What the colours of a drawing mean, of those that occur in it. */
export function legend(kinds) {
  if (kinds.length === 0) return null;
  return h("p", { class: "legend" }, kinds.map((kind) =>
    h("span", {}, s("svg", { viewBox: "0 0 10 10" }, s("rect", { class: kind, width: 10, height: 10 })), kind.replace("outcome-", ""))));
}
