// The offsets of a pipeline's partitions. Ranges that are drawn over a strip can be read again.

import { askBackfill } from "./actions.js";
import { asOf, h, number, section } from "./dom.js";
import { batchStrip, bounds, legend, partitionStrip, pieces } from "./drawing.js";

export function offsetSection(view, batchState) {
  const { facts, chosen } = view;
  const failed = facts.state === "failed" || facts.state === "retrying";
  const kinds = new Set();
  const rows = facts.partitions.map((p) => {
    const again = facts.backfills.filter((b) => b.outcome !== "cancelled").flatMap((b) => b.chunks.flatMap(
      ([landed, ...ranges]) => ranges.filter(([topic, n]) => topic === p.topic && n === p.partition)
        .map(([, , start, end]) => ({ number: b.number, landed, start, end }))));
    const drawn = pieces(p, failed, again), ends = bounds(p), key = `${p.topic}-${p.partition}`;
    for (const piece of drawn) kinds.add(piece.kind);
    const choose = (range) => {
      chosen.ranges.set(key, range);
      view.redraw();
    };
    return h("div", { class: "partition" },
      h("div", { class: "name" }, key),
      h("div", {},
        ends === null ? h("p", { class: "quiet" }, "no offsets are known yet") : [
          partitionStrip(p, drawn, chosen.ranges.get(key), choose),
          h("div", { class: "scale" }, h("span", {}, number(ends[0])), h("span", {}, number(ends[1])))],
        batchStrip(p, facts.batches, batchState, chosen.batch, view.select)),
      h("div", { class: "quiet number" }, `${number(p.committed)} of ${number(p.log_end)}`));
  });
  return section("Offsets",
    h("p", { class: "quiet", "data-figure": "kafka" }, "Kafka was asked ", asOf(view.name, "kafka"), ". Draw over a strip to choose offsets."),
    rows.length === 0 ? h("p", { class: "quiet" }, "Nothing has been read yet, and Kafka has not named the topics yet.") : [legend([...kinds]), rows],
    ofChoice(view));
}

function ofChoice(view) {
  const { ranges } = view.chosen;
  if (ranges.size === 0) return null;
  const texts = [...ranges].map(([key, [start, end]]) => `${key}:${start}-${end}`);
  return h("p", { class: "buttons choice" }, "Chosen: ", texts.flatMap((text) => [h("code", {}, text), " "]),
    h("button", { type: "button", "data-key": "choice-backfill", click: () => askBackfill(view, { ranges: texts }) }, "Backfill these offsets …"),
    h("button", { type: "button", "data-key": "choice-clear", click: () => {
      ranges.clear();
      view.redraw();
    } }, "Clear"));
}
