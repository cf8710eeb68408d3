// Filters: those that apply, as chips, and values to filter by, with how many photos have them.

import { addressOf, currentQuery, inCondition } from "./address.js";
import { counts, fields } from "./api.js";
import { make } from "./dom.js";

const SKIPPED = ["path", "make", "model", "description"]; // others say the same, or too much
const MOST_FACETS = 6;
const MOST_VALUES = 12;
const section = document.querySelector("#narrow");
const chips = section.querySelector("#filters");
const details = section.querySelector("details");
const facets = section.querySelector("#facets");

let open;
let kinds = {};
let running = new AbortController();

const quoted = (text) => `"${text.replace(/[\\"]/g, "\\$&")}"`;
const named = (field) => (/^\w+$/.test(field) ? field : quoted(field));

/** The condition that a field has a value. */
const condition = (field, value) =>
  kinds[field] === "keyword" ? `${named(field)}:=${quoted(value)}` : `${named(field)}:${value}`;

/** A condition in words: camera: Canon. */
const inWords = (text) => text.replace(/^(\w+):=?"?(.*?)"?$/, "$1: $2");

function makeChip(text) {
  const cross = make("span", { "aria-hidden": "true" }, " ×");
  const label = `Remove the filter ${inWords(text)}`;
  const chip = make("button", { type: "button", className: "chip", "aria-label": label }, inWords(text), cross);
  chip.addEventListener("click", () => open(addressOf({ filter: currentQuery().filter.filter((one) => one !== text) })));
  return make("li", {}, chip);
}

/** Filter by a condition; there is one period at a time. */
function add(text) {
  const others = currentQuery().filter.filter((one) => one !== text && !(text.startsWith("taken:") && one.startsWith("taken:")));
  open(addressOf({ filter: [...others, text] }));
}

function makeValue(field, { value, count }, most) {
  const label = `${value}: ${count.toLocaleString("en")} ${count === 1 ? "photo" : "photos"}`;
  const number = make("small", {}, count.toLocaleString("en"));
  const button = make("button", { type: "button", className: "chip", "aria-label": `Filter by ${field} ${label}`, title: label }, `${value} `, number);
  button.style.setProperty("--share", count / most);
  button.addEventListener("click", () => add(condition(field, value)));
  return make("li", {}, button);
}

function makeFacet(field, buckets, className) {
  const most = Math.max(...buckets.map(({ count }) => count));
  const values = buckets.map((bucket) => makeValue(field, bucket, most));
  const list = make("ul", { className, "aria-label": field }, ...values);
  return make("div", { className: "facet" }, make("h2", {}, field), list);
}

/** The years of all photos, the months of a year, or the days of a month. */
function timeFacet({ filter }) {
  const period = filter.findLast((one) => one.startsWith("taken:"))?.slice("taken:".length) ?? "";
  if (/^\d{4}$/.test(period)) return "taken:month";
  return /^\d{4}-\d\d/.test(period) ? "taken:day" : "taken:year";
}

async function showFacets() {
  running.abort();
  running = new AbortController();
  const { signal } = running;
  const query = currentQuery();
  const wanted = Object.keys(kinds).filter((name) => ["keyword", "boolean"].includes(kinds[name]) && !SKIPPED.includes(name));
  const names = [...wanted.slice(0, MOST_FACETS), ...(kinds.rating === "number" ? ["rating"] : [])];
  const time = kinds.taken === "date" ? timeFacet(query) : null;
  try {
    const found = await counts(query, time ? [time, ...names] : names, signal);
    const others = names.filter((name) => found[name].length).map((name) => makeFacet(name, found[name].slice(0, MOST_VALUES), "values"));
    const line = time && found[time].length ? [makeFacet("taken", found[time], "timeline")] : [];
    facets.replaceChildren(...line, ...others);
  } catch (error) {
    if (!signal.aborted) facets.replaceChildren(make("p", { role: "alert" }, inCondition(error.message)));
  }
}

/** Show the filters of the query in the address. */
export function showFilters() {
  const { filter } = currentQuery();
  chips.replaceChildren(...filter.map(makeChip));
  if (details.open) showFacets();
}

/** Begin to offer filters, if the photos have fields; `opener` goes to an address. */
export async function offerFilters(opener) {
  open = opener;
  details.addEventListener("toggle", () => details.open && showFacets());
  kinds = await fields();
  section.hidden = Object.keys(kinds).length === 0;
}
