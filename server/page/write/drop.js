// Photos dragged onto the page: areas appear that say what can be done with them.

import { searchBy } from "../search_by_file.js";
import { addPhotos } from "./add.js";

const area = document.querySelector("#drop");
const zones = area.querySelectorAll(".zone");
const uses = { add: addPhotos, search: ([file]) => file && searchBy(file) };

/** Whether a number of photos can be dropped on a zone. */
const offered = ({ dataset }, count) =>
  dataset.use === "add" ? document.body.hasAttribute("data-writable") : count === 1;

/** Whether files are dragged, and not to where they cannot be dropped now. */
const carriesFiles = (event) => event.dataTransfer?.types.includes("Files");
const isBusy = () => document.querySelector("dialog[open], .signed-out") !== null;

function point(target) {
  for (const zone of zones) zone.classList.toggle("over", zone === target);
}

function hide() {
  area.hidden = true;
  point(null);
}

addEventListener("dragover", (event) => {
  if (!carriesFiles(event)) return;
  event.preventDefault(); // else the browser opens the file in place of the page
  for (const zone of zones) zone.hidden = !offered(zone, event.dataTransfer.items.length);
  area.hidden = isBusy() || ![...zones].some((zone) => !zone.hidden);
  const zone = event.target.closest?.(".zone");
  point(zone);
  event.dataTransfer.dropEffect = zone ? "copy" : "none";
});
addEventListener("dragleave", (event) => event.relatedTarget === null && hide());
addEventListener("drop", (event) => {
  if (!carriesFiles(event)) return;
  event.preventDefault();
  const zone = event.target.closest?.(".zone");
  hide();
  if (zone) uses[zone.dataset.use]([...event.dataTransfer.files]);
});
