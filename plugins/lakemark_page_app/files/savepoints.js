// What the tables can go back to: savepoints, which have a name and stay, and the newest checkpoints.

import { askOfSavepoint, askRestore, askSavepoint } from "./actions.js";
import { ago, h, iso, number, plural, stateMark, table } from "./dom.js";
import { later } from "./tables.js";

export function savepoints(view) {
  return later(view, "Savepoints and checkpoints", "savepoints", (f) => [
    f.savepoints.length === 0
      ? h("p", { class: "quiet" }, "There is no savepoint yet. The button Savepoint makes one.")
      : table({ class: "savepoints" }, ["Savepoint", "State", "Of", "#MB", "When", "Why", "Who", "Rehearsed", ""], f.savepoints.map((one) => savepoint(view, one))),
    h("details", { "data-open": "checkpoints" }, h("summary", {}, `The newest ${plural(f.checkpoints.length, "checkpoint")}`),
      table({ class: "checkpoints" }, ["Checkpoint", "State", "#Read", "When", ""], f.checkpoints.map((one) => checkpoint(view, one)))),
  ]);
}

function savepoint(view, one) {
  const button = (what, text, click) => h("button", { type: "button", "data-key": `${what}-${one.name}`, click }, text);
  const tried = one.rehearsed;
  return h("tr", { "data-savepoint": one.name }, h("th", { scope: "row" }, one.name),
    h("td", {}, stateMark(one.lost ? (one.is_ended ? "broken" : "not ended") : "whole"), one.lost && h("p", { class: "problem" }, one.lost)),
    h("td", {}, one.kind && `${one.kind} of ${one.checkpoint}`), h("td", { class: "number" }, one.bytes === null ? "" : number(Math.round(one.bytes / 1e6))),
    h("td", {}, ago(one.at)), h("td", {}, one.reason), h("td", { class: "quiet" }, one.by),
    h("td", { class: tried?.problems.length ? "problem" : null }, tried ? [ago(tried.at), tried.problems.length ? `: ${plural(tried.problems.length, "problem")}` : ": good"] : "never"),
    h("td", { class: "buttons" }, !one.lost && [
      button("restore", "Go back …", () => askRestore(view, { savepoint: one.name })),
      button("rehearse", "Rehearse …", () => askOfSavepoint(view, "rehearse a restore", one.name,
        "Restores it into a pipeline that lives for a while, audits that, and drops it. The savepoint's pipeline is not touched."))],
      button("drop", "Drop …", () => askOfSavepoint(view, "drop a savepoint", one.name, "Nobody can go back to it any more. The tables stay as they are."))));
}

function checkpoint(view, one) {
  const button = (what, text, click) => h("button", { type: "button", "data-key": `${what}-${one.name}`, click }, text);
  return h("tr", { "data-checkpoint": one.name }, h("th", { scope: "row" }, one.name),
    h("td", {}, stateMark(one.lost ? "broken" : "whole"), one.lost ? h("p", { class: "problem" }, one.lost) : one.until && ` until ${iso(one.until)} at least`),
    h("td", { class: "number" }, one.read === null ? "" : number(one.read)), h("td", {}, ago(one.at)),
    h("td", { class: "buttons" }, !one.lost && [
      button("back", "Go back …", () => askRestore(view, { checkpoint: one.name })),
      button("keep", "Keep …", () => askSavepoint(view, { checkpoint: one.name }))]));
}
