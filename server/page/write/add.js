// Adding photos of this device to the index.

import { Problem, putPhoto } from "../api.js";
import { make, plural } from "../dom.js";
import { choose } from "./choose.js";
import { permitted } from "./permission.js";

const LARGEST = 64 * 1024 * 1024; // bytes of a photo that the server takes
const FOR_ALL = [401, 403, 409, 502, 504]; // statuses that other photos would get as well
const TRIES = 5;

const section = document.querySelector("#adding");
const status = section.querySelector("[role='status']");
const progress = section.querySelector("progress");
const failures = section.querySelector(".failed");
const stop = section.querySelector(".stop");
const done = section.querySelector(".done");
const files = document.querySelector("#files");

let running = null; // aborts the photos that are being added

const pause = (seconds) => new Promise((resolve) => setTimeout(resolve, 1000 * seconds));

/** Do something again as long as the server asks for patience, up to a limit. */
async function patiently(task) {
  for (let tries = 1; ; tries++) {
    try {
      return await task();
    } catch (error) {
      if (!error.retryAfter || tries === TRIES) throw error;
      await pause(error.retryAfter);
    }
  }
}

/** The id of a file with a number: beach.jpg → beach-2.jpg. */
const numbered = (id, n) => id.replace(/(\.[^.]*)?$/, (suffix) => `-${n}${suffix}`);

async function check(file) {
  if (file.size > LARGEST) {
    const size = `${Math.ceil(file.size / 2 ** 20).toLocaleString("en")} MiB`;
    throw new Problem("", `the file has ${size}; 64 MiB are allowed`, 413);
  }
  try {
    await file.slice(0, 1).arrayBuffer();
  } catch {
    throw new Problem("", "this is no file that can be read; folders are added with sparta add", 422);
  }
}

/** Asks what to do with photos whose ids are taken: once, if the answer is for all. */
function makeReferee(several) {
  let forAll = "";
  return async (id) => {
    if (forAll) return forAll;
    const box = make("input", { type: "checkbox" });
    const text = [`To keep both, this one gets the id ${numbered(id, 2)} or a higher number.`];
    if (several) text.push(make("label", { className: "for-all" }, box, " Do the same with all others"));
    const choices = [["skip", "Skip"], ["keep", "Keep both"], ["replace", "Replace"]];
    const choice = (await choose(`${id} is in the index already`, text, choices)) || "skip";
    if (box.checked) forAll = choice;
    return choice;
  };
}

/** Add one photo; returns its id, null if it was skipped. */
async function addOne(file, decide, signal) {
  await check(file);
  const put = (id, replace) => patiently(() => putPhoto(id, file, replace, signal));
  const isAdded = async (id) => {
    try {
      await put(id, false);
      return true;
    } catch (error) {
      if (error.status !== 412) throw error;
      return false;
    }
  };
  const id = file.name.normalize();
  if (await isAdded(id)) return id;
  const choice = await decide(id);
  if (choice === "skip") return null;
  if (choice === "replace") {
    await put(id, true);
    return id;
  }
  let n = 2;
  while (!(await isAdded(numbered(id, n)))) n++;
  return numbered(id, n);
}

function begin(count) {
  running = new AbortController();
  failures.replaceChildren();
  progress.max = count;
  section.hidden = progress.hidden = stop.hidden = false;
  done.hidden = true;
  return running.signal;
}

function end(added, left) {
  running = null;
  progress.hidden = stop.hidden = true;
  done.hidden = false;
  const rest = left ? `, ${left.toLocaleString("en")} not` : "";
  status.textContent = `${plural(added.length, "photo", "photos")} added${rest}`;
  section.hidden = left === 0;
  if (added.length) dispatchEvent(new CustomEvent("photos-added", { detail: added }));
}

/** Add photos one after the other, and show those that were added. */
export async function addPhotos(photos) {
  if (running || !photos.length || !(await permitted())) return;
  const signal = begin(photos.length);
  const decide = makeReferee(photos.length > 1);
  const added = [];
  let skipped = 0;
  for (const [i, file] of photos.entries()) {
    status.textContent = `Adding ${file.name} (${i + 1} of ${photos.length})`;
    progress.value = i;
    try {
      const id = await addOne(file, decide, signal);
      if (id === null) skipped++;
      else added.push(id);
    } catch (error) {
      if (signal.aborted) break;
      const why = error.status ? error.message : `${error.title}. ${error.message}`;
      failures.append(make("li", {}, make("b", {}, file.name), `: ${why}`));
      if (!error.status || FOR_ALL.includes(error.status)) break;
    }
  }
  end(added, photos.length - added.length - skipped);
}

stop.addEventListener("click", () => running.abort());
done.addEventListener("click", () => (section.hidden = true));
document.querySelector("#add").addEventListener("click", () => files.click());
files.addEventListener("change", () => {
  addPhotos([...files.files]);
  files.value = ""; // so that the same photos can be chosen again
});
