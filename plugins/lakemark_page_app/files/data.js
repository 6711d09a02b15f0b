// A look at the table: its columns, its newest rows, and what differs between two versions.

import { ask, h, number, plural, section, table } from "./dom.js";
import { later, writer } from "./tables.js";

export function dataSection(view) {
  return section("Data", columns(view), rows(view), comparison(view));
}

function columns(view) {
  return part(view, "Columns", "columns", (c) => c.columns.length === 0
    ? h("p", { class: "quiet" }, "There is no table yet.")
    : h("details", { "data-open": "columns" }, h("summary", {}, plural(c.columns.length, "column"), `, version ${number(c.version)}`),
        table({}, ["Column", "Type", "Key"], c.columns.map((one) =>
          h("tr", {}, h("th", { scope: "row" }, one.name), h("td", {}, h("code", {}, one.type)), h("td", {}, one.is_key ? "key" : ""))))));
}

function rows(view) {
  return part(view, "Newest rows", "rows", (r) => r.rows.length === 0
    ? h("p", { class: "quiet" }, "There is no row yet.")
    : h("details", { "data-open": "rows" }, h("summary", {}, plural(r.rows.length, "row"), `, version ${number(r.version)}`),
        table({ class: "rows" }, [...r.columns, "Written by", "From"], r.rows.map(({ values, place }) =>
          h("tr", { class: place.deleted ? "gone" : null }, values.map((value) => h("td", {}, cell(value))),
            h("td", { class: "quiet" }, writer(place), place.deleted && " (deleted: readers leave it out)"),
            h("td", { class: "quiet" }, `${place.topic}-${place.partition}@${place.offset}`))))));
}

function part(view, title, name, drawn) {
  const found = later(view, title, name, drawn);
  found.firstChild.replaceWith(h("h3", {}, ...found.firstChild.childNodes));
  return found;
}

const cell = (value) => (value === null ? h("span", { class: "quiet" }, "null") : value);

function comparison(view) {
  const { chosen, facts } = view;
  const newest = facts.table_version;
  if (!newest) return null;
  const [first, last] = chosen.versions ?? [newest - 1, newest];
  const before = h("input", { type: "number", min: 0, max: newest, value: first, "aria-label": "Version before" });
  const after = h("input", { type: "number", min: 0, max: newest, value: last, "aria-label": "Version after" });
  return h("section", { "aria-label": "Versions compared", id: "compared" }, h("h3", {}, "Versions compared"),
    h("form", { class: "buttons", submit: (event) => {
      event.preventDefault();
      compareVersions(view, Number(before.value), Number(after.value));
    } }, "From version ", before, " to version ", after, h("button", { "data-key": "compare" }, "Compare")),
    shown(chosen.compared));
}

/** Shows what differs between two versions of the table. */
export async function compareVersions(view, before, after) {
  const { chosen } = view;
  Object.assign(chosen, { versions: [before, after], compared: { waits: true } });
  view.redraw();
  document.getElementById("compared")?.scrollIntoView({ block: "nearest" });
  chosen.compared = await ask(`${view.path}/compare?before=${before}&after=${after}`)
    .then((facts) => ({ facts }), (error) => ({ problem: error.message }));
  view.redraw();
}

function shown(compared) {
  if (compared === null) return null;
  if (compared.waits) return h("p", { class: "quiet" }, "Comparing …");
  if (compared.problem) return h("p", { class: "problem" }, compared.problem);
  const { versions, inserted, updated, deleted, columns, examples } = compared.facts;
  return [
    h("p", {}, `Version ${versions[0]} to ${versions[1]}: `, h("strong", {}, `${plural(inserted, "row")} inserted, ${number(updated)} updated, ${number(deleted)} deleted`),
      examples.length < inserted + updated + deleted && `. ${plural(examples.length, "example")}:`),
    examples.length > 0 && table({ class: "rows" }, ["Row", ...columns], examples.map(({ kind, before, after }) =>
      h("tr", { class: kind === "deleted" ? "gone" : null }, h("th", { scope: "row" }, kind), columns.map((_, n) => {
        if (kind !== "updated" || before[n] === after[n]) return h("td", {}, cell((after ?? before)[n]));
        return h("td", { class: "changed" }, h("del", {}, cell(before[n])), " ", h("ins", {}, cell(after[n])));
      }))))];
}
