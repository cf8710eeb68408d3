// The dialog with a large photo and the table that explains its score.

import { addressOf } from "./address.js";
import { make, whilePointed } from "./dom.js";
import { isWhole, makePhoto } from "./photo.js";

const dialog = document.querySelector("#details");
const find = (selector) => dialog.querySelector(selector);
const steps = { ArrowLeft: -1, ArrowRight: 1 };

let backend = "";
let text = "";
let like = "";
let hits = [];
let current = 0;

/** Open the dialog for the hit at a position of an answer. */
export function openDetails(answer, position) {
  ({ backend, query: text, image_id: like = "", hits } = answer);
  show(position);
  dialog.showModal();
  if (!history.state?.photo) history.pushState({ ...history.state, photo: true }, ""); // going back closes it
}

function show(position) {
  if (!hits[position]) return;
  current = position;
  const hit = hits[position];
  const photo = makePhoto(hit);
  const { width, height } = hit.metadata;
  if (width && height) photo.style.setProperty("--aspect", width / height);
  find("#details-photo").replaceChildren(photo);
  find("#details-title").replaceChildren(
    make("span", { className: "rank" }, `${hit.rank}`),
    ` ${hit.image_id}`,
  );
  find("table").hidden = !hit.explanation;
  find(".unexplained").textContent = hit.explanation ? "" : unexplained(hit);
  find("tbody").replaceChildren(...(hit.explanation ?? []).map((term) => makeRow(term, photo)));
  find("tfoot td").textContent = hit.score;
  find(".previous").disabled = position === 0;
  find(".next").disabled = position === hits.length - 1;
  find("footer .like").href = addressOf({ q: "", like: hit.image_id });
  find("footer .file").hidden = !hit.url;
  find("footer .file").href = hit.url ?? "";
}

/** The text in place of the table, for a score that is not a sum over terms. */
function unexplained({ score, view }) {
  if (!text && !like) return "";
  const nearest = view === null ? "" : ` View ${view + 1} of the photo was the nearest.`;
  const compared = like ? "photos as a whole" : "the text with the photo as a whole";
  return (
    `Similarity ${score.toFixed(3)}. ${backend} compares ${compared}, so its score has no parts ` +
    `for words or regions.${nearest}`
  );
}

/** The winner of a term: a region of the photo, or a token of a region's label. */
function wonBy({ region, label, box }) {
  if (region === null) return "–";
  if (!label) return isWhole(box) ? "whole photo" : `region ${region}`;
  const { token, words } = label;
  return `label “${token}”${token === words ? "" : ` in “${words}”`}`;
}

function makeRow(term, photo) {
  const shown = term.similarity === null ? ` ${term.term}` : ` → ${term.term}`;
  const piece = [term.word, term.word.toLowerCase()].includes(term.term) ? [] : [make("small", {}, shown)];
  const row = make(
    "tr",
    { className: term.impact ? "" : "nothing" },
    make("th", { scope: "row" }, term.word, ...piece),
    ...[term.count, term.impact, term.score, wonBy(term)].map((value) =>
      make("td", {}, `${value}`),
    ),
  );
  if (term.box) {
    row.tabIndex = 0;
    const name = term.label ? `${term.word}: ${wonBy(term)}` : term.word;
    whilePointed(row, () => photo.show(term, name), () => photo.hide());
  }
  return row;
}

find(".close").addEventListener("click", () => dialog.close());
find(".previous").addEventListener("click", () => show(current - 1));
find(".next").addEventListener("click", () => show(current + 1));
dialog.addEventListener("click", (event) => event.target === dialog && dialog.close());
dialog.addEventListener("keydown", (event) => {
  if (event.key in steps) show(current + steps[event.key]);
});
