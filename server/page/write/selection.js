// Selecting hits, and deleting those that are selected.

import { deletePhotos } from "../api.js";
import { make, plural } from "../dom.js";
import { choose } from "./choose.js";
import { permitted } from "./permission.js";

const bar = document.querySelector("#selection");
const count = bar.querySelector("[role='status']");
const problem = bar.querySelector(".problem");
const selected = new Set(); // ids of images
let last = null; // the card from which Shift selects a range

const writable = () => document.body.hasAttribute("data-writable");

/** The checkbox in the corner of a hit. */
export const makeCheckbox = ({ rank }) =>
  make("input", { type: "checkbox", className: "select", title: "Select (x)", "aria-label": `Select photo ${rank}` });

function show() {
  for (const card of document.querySelectorAll(".card")) {
    card.querySelector(".select").checked = selected.has(card.imageId);
  }
  document.body.toggleAttribute("data-selecting", selected.size > 0);
  bar.hidden = selected.size === 0;
  count.textContent = `${selected.size.toLocaleString("en")} selected`;
  problem.textContent = "";
}

export function clearSelection() {
  selected.clear();
  last = null;
  show();
}

/** The cards between the last one and another of the same list, both included. */
function range(card) {
  const cards = [...card.parentElement.children];
  if (!cards.includes(last)) return [card];
  const [from, to] = [cards.indexOf(last), cards.indexOf(card)].sort((a, b) => a - b);
  return cards.slice(from, to + 1);
}

/** Select a card, or no longer; with Shift all from the last one to it. */
function toggle(card, shift) {
  const on = !selected.has(card.imageId);
  for (const { imageId } of shift ? range(card) : [card]) {
    if (on) selected.add(imageId);
    else selected.delete(imageId);
  }
  last = card;
  show();
}

async function deleteSelected() {
  if (!(await permitted())) return;
  const ids = [...selected];
  const photos = plural(ids.length, "photo", "photos");
  const choices = [["", "Cancel"], ["delete", `Delete ${photos}`]];
  const text = "Searches no longer find them. The files stay where they are.";
  if ((await choose(`Delete ${photos} from the index?`, [text], choices)) !== "delete") return;
  bar.setAttribute("aria-busy", "true");
  try {
    await deletePhotos(ids);
    dispatchEvent(new CustomEvent("photos-deleted", { detail: ids }));
    clearSelection();
    (document.querySelector(".opener") ?? document.querySelector("#q")).focus();
  } catch (error) {
    problem.textContent = `${error.title}: ${error.message}`;
  }
  bar.removeAttribute("aria-busy");
}

addEventListener("click", (event) => {
  if (event.target.matches(".select")) toggle(event.target.closest(".card"), event.shiftKey);
});
addEventListener("keydown", (event) => {
  if (!writable() || event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey) return;
  const card = event.target.closest(".card");
  if (card && event.key.toLowerCase() === "x") toggle(card, event.shiftKey);
  const typing = event.target.matches("input:not(.select), select") || document.querySelector("dialog[open]");
  if (event.key === "Escape" && !typing) clearSelection();
});
bar.querySelector(".delete").addEventListener("click", deleteSelected);
bar.querySelector(".clear").addEventListener("click", clearSelection);
