// A photo, and the box of a region over it.

import { thumbnail } from "./api.js";
import { make } from "./dom.js";

const MISSING = "The photo file is missing";

const percent = (share) => `${share * 100}%`;

/** Whether a box covers the whole photo, and so locates nothing. */
export const isWhole = ([x1, y1, x2, y2]) => (x2 - x1) * (y2 - y1) > 0.999;

/** A word of the query with its substitute, if one was searched in its place. */
const shownWord = (word, term, similarity) => (similarity === null ? word : `${word} → ${term}`);

/**
 * The words of a hit's explanation with their scores and, for the box, their best term; empty if
 * the backend does not explain.
 */
export function wordsOf(hit) {
  const words = new Map();
  for (const term of (hit.explanation ?? []).filter(({ sign }) => sign !== "-")) {
    const text = shownWord(term.word, term.term, term.similarity);
    const word = words.get(text) ?? { text, score: 0, best: term };
    word.score += term.score;
    if (term.score > word.best.score) word.best = term;
    words.set(text, word);
  }
  return words;
}

/** Why the photo at a URL is not shown. */
async function reasonOf(url) {
  try {
    const answer = await fetch(url);
    return answer.ok ? "This browser cannot show the photo" : (await answer.json()).title;
  } catch {
    return MISSING; // no answer, or none of this server
  }
}

/**
 * The photo of a hit, `small` or as it is: an element with `show(term, name)`, which shows the box,
 * and `hide()`.
 */
export function makePhoto(hit, small = false) {
  const won = [...wordsOf(hit).values()].filter((word) => word.score > 0);
  const matching = won.map((word) => word.text);
  const image = make("img", {
    alt: `Photo ${hit.image_id}${matching.length ? `, matching ${matching.join(", ")}` : ""}`,
    draggable: false,
  });
  const name = make("span");
  const box = make("span", { className: "box", hidden: true, "aria-hidden": "true" }, name);
  const photo = make("span", { className: "photo" }, image, box);
  const { width, height } = hit.metadata;
  if (width && height) photo.style.aspectRatio = `${width} / ${height}`;

  const missing = async () => {
    photo.classList.add("missing");
    const reason = make("span", { className: "gone" }, MISSING);
    image.replaceWith(reason);
    if (hit.url) reason.textContent = await reasonOf(hit.url);
  };
  let whole = !small;
  image.addEventListener("error", () => {
    if (whole) return missing();
    // The browser may know a format that the server does not.
    whole = true;
    image.src = hit.url;
  });
  if (!hit.url) missing();
  else {
    if (small) image.loading = "lazy";
    image.src = small ? thumbnail(hit.url, 512) : hit.url;
  }

  photo.show = (term, word) => {
    if (!term?.box) return photo.hide();
    const [x1, y1, x2, y2] = term.box;
    box.style.left = percent(x1);
    box.style.top = percent(y1);
    box.style.width = percent(x2 - x1);
    box.style.height = percent(y2 - y1);
    name.textContent = word;
    name.className = y1 < 0.12 ? "inside" : "";
    name.classList.toggle("right", x1 > 0.6);
    box.hidden = false;
    photo.classList.add("pointed");
  };
  photo.hide = () => {
    box.hidden = true;
    photo.classList.remove("pointed");
  };
  return photo;
}
