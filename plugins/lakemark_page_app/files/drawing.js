// Drawings: a strip for a partition's offsets, bars for a batch's records by disposition and its seconds by phase.

import { h, number, s } from "./dom.js";

const WIDTH = 1000; // in a strip's own coordinates; the strip fills the width of the page
const DISPOSITIONS = ["applied", "superseded", "stale", "filtered", "routed", "quarantined"];
const PHASES = ["session", "read", "archive", "decode", "judge", "quarantine", "history", "routes", "merge", "settle"];

/** A partition's offsets: expired, committed, planned or failed, and waiting; backfills are below. */
export function partitionStrip(partition, failed, backfills) {
  const known = [partition.first, partition.log_start, partition.committed, partition.planned, partition.log_end];
  const numbers = known.filter((n) => n !== null);
  if (numbers.length === 0) return h("p", { class: "quiet" }, "no offsets are known yet");
  const low = Math.min(...numbers), high = Math.max(...numbers, low + 1);
  const x = (offset) => ((Math.min(Math.max(offset, low), high) - low) / (high - low)) * WIDTH;
  const piece = (kind, start, end, text, y = 0, height = 18) =>
    start === null || end === null || end <= start
      ? null
      : s("rect", { class: kind, x: x(start), y, width: Math.max(1.5, x(end) - x(start)), height },
          s("title", {}, `${text}: ${number(start)} to ${number(end)}`));
  const { first, log_start: start, log_end: end, committed, planned } = partition;
  const rest = Math.max(planned ?? committed ?? start ?? low, start ?? low);
  return s("svg", { class: "strip", viewBox: `0 0 ${WIDTH} 24`, preserveAspectRatio: "none", role: "img",
      "aria-label": `${partition.topic}-${partition.partition}: committed to ${number(committed)} of ${number(end)}` },
    piece("committed", first ?? start, committed, "committed"),
    piece(failed ? "failed" : "planned", committed, planned, failed ? "planned, failed" : "planned"),
    piece("waiting", rest, end, "waiting"),
    piece("expired", first ?? start, start, "expired in Kafka", 0, 5),
    backfills.map((b) => piece(b.landed ? "backfilled" : "backfilling", b.start, b.end,
      `backfill ${b.number}, ${b.landed ? "landed" : "not landed"}`, 20, 4)));
}

/** The listed batches as pieces of the partition: they show which batch read which offsets. */
export function batchStrip(partition, batches, stateOf, selected, select) {
  const mine = batches.flatMap((batch) => batch.ranges
    .filter(([topic, number]) => topic === partition.topic && number === partition.partition)
    .map(([, , start, end]) => ({ batch, start, end })));
  if (mine.length === 0) return null;
  const low = Math.min(...mine.map((m) => m.start)), high = Math.max(...mine.map((m) => m.end));
  const x = (offset) => ((offset - low) / (high - low)) * WIDTH;
  return s("svg", { class: "strip", viewBox: `0 0 ${WIDTH} 16`, preserveAspectRatio: "none", role: "img",
      "aria-label": `batches ${mine.at(-1).batch.batch_id} to ${mine[0].batch.batch_id}` },
    mine.map(({ batch, start, end }) =>
      s("rect", { class: `${stateOf(batch)} cut ${batch.batch_id === selected ? "selected" : ""}`, y: 1, height: 14,
          x: x(start), width: Math.max(1.5, x(end) - x(start)), click: () => select(batch.batch_id) },
        s("title", {}, `batch ${batch.batch_id}: ${number(start)} to ${number(end)}`))));
}

/** The quality suite's verdicts, the newest on the right. A bar is higher if more rules were broken. */
export function judgementStrip(judgements) {
  const width = WIDTH / Math.max(judgements.length, 30), most = Math.max(1, ...judgements.map((j) => j.broken));
  return s("svg", { class: "strip", viewBox: `0 0 ${WIDTH} 24`, preserveAspectRatio: "none", role: "img",
      "aria-label": `${judgements.filter((j) => j.outcome === "passed").length} of ${judgements.length} judgements passed` },
    judgements.map((j, n) => {
      const height = 6 + (18 * j.broken) / most;
      return s("rect", { class: `cut outcome-${j.outcome}`, x: n * width, y: 24 - height, width, height },
        s("title", {}, `${j.batch_id === null ? `version ${j.table_version}` : `batch ${j.batch_id}`}: ${j.outcome}, ${number(j.broken)} rules broken, ${new Date(j.at).toLocaleString()}`));
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

/** What the colours of a drawing mean. */
export function legend(kinds) {
  return h("p", { class: "legend" }, kinds.map((kind) =>
    h("span", {}, s("svg", { viewBox: "0 0 10 10" }, s("rect", { class: kind, width: 10, height: 10 })), kind)));
}

export { DISPOSITIONS, PHASES };
