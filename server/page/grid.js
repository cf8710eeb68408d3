// The hits as rows of photos, and the words of the query above them.

import { make, whilePointed } from "./dom.js";
import { makePhoto, wordsOf } from "./photo.js";
import { makeCheckbox } from "./with_server.js";

const HARDLY = 0.3; // share of the query below which a photo is greyed
const number = new Intl.NumberFormat("en", { maximumFractionDigits: 1 });
const similarity = new Intl.NumberFormat("en", { minimumFractionDigits: 3 });

/** The card of a hit; `card.point(word)` shows the region of a word, of none for null. */
function makeCard(hit, strongest, scored, rest, open) {
  const words = wordsOf(hit);
  const photo = makePhoto(hit, true);
  const opener = make(
    "button",
    { className: "opener", type: "button", "aria-label": `Details of photo ${hit.rank}` },
    photo,
  );
  opener.addEventListener("click", () => open(hit));

  const score = scored ? (hit.explanation ? number : similarity).format(hit.score) : "";
  const chips = make("ul", { className: "chips", "aria-label": "Matching words" });
  const card = make(
    "li",
    { className: "card", imageId: hit.image_id },
    opener,
    makeCheckbox(hit),
    make(
      "p",
      { className: "line" },
      make("span", { className: "rank", "aria-label": `Rank ${hit.rank}` }, `${hit.rank}`),
      make("span", { className: "name", title: hit.image_id }, hit.image_id),
      make("span", { className: "score", title: "Score" }, score),
    ),
    chips,
  );
  card.point = (text) => {
    const word = words.get(text);
    if (word?.score > 0) photo.show(word.best, text);
    else photo.hide();
    for (const chip of chips.querySelectorAll(".chip")) {
      chip.classList.toggle("on", chip.dataset.word === text);
    }
    card.classList.toggle("without", text !== null && !(word?.score > 0));
  };
  const descending = [...words.values()].sort((a, b) => b.score - a.score);
  for (const word of descending.filter((word) => word.score > 0)) {
    const label = `${word.text}, score ${number.format(word.score)}`;
    const chip = make("button", { type: "button", className: "chip", title: label }, word.text);
    chip.dataset.word = word.text;
    chip.style.setProperty("--strength", word.score / strongest);
    whilePointed(chip, () => card.point(word.text), rest);
    chips.append(make("li", {}, chip));
  }
  const { width, height } = hit.metadata;
  const aspect = width && height ? width / height : 4 / 3;
  card.classList.toggle("hardly", (hit.coverage ?? 1) < HARDLY);
  card.style.flexGrow = aspect * 100;
  card.style.setProperty("--aspect", aspect);
  return card;
}

/**
 * Fill the list of hits and the list of words with an answer; returns a function that adds the hits
 * of the next page.
 */
export function showAnswer(answer, list, wordList, open) {
  const perHit = answer.hits.map(wordsOf);
  const strongest = Math.max(1, ...perHit.flatMap((w) => [...w.values()].map((x) => x.score)));
  let pinned = null;
  const rest = () => pointAll(pinned);
  const scored = answer.query !== "" || "image_id" in answer;
  const toCard = (hit) => makeCard(hit, strongest, scored, rest, open);
  const cards = answer.hits.map(toCard);
  const pointAll = (word) => cards.forEach((card) => card.point(word));

  const words = new Set(perHit.flatMap((words) => [...words.keys()]));
  const known = [...words].filter((word) => !answer.unknown.includes(word));
  const similarities = new Map(
    answer.substitutions.filter((one) => one.similarity !== null).map(({ word, term, similarity }) => [`${word} → ${term}`, similarity]),
  );
  const replaced = answer.substitutions.filter(({ word }) => answer.rare.includes(word));
  const rare = new Set([...answer.rare, ...replaced.map(({ word, term }) => `${word} → ${term}`)]);
  const chips = known.map((word) => {
    const chip = make("button", { type: "button", className: "chip", "aria-pressed": "false" }, word);
    const titles = [];
    if (similarities.has(word)) {
      titles.push(`Not in the index; the nearest word is searched, similarity ${similarities.get(word).toFixed(2)}`);
    }
    if (rare.has(word)) {
      chip.classList.add("rare");
      titles.push("Rarely seen in training: results may be wrong");
    }
    if (titles.length) chip.title = titles.join(". ");
    whilePointed(chip, () => pointAll(word), rest);
    chip.addEventListener("click", () => {
      pinned = pinned === word ? null : word;
      for (const other of chips) other.setAttribute("aria-pressed", `${other === chip && pinned !== null}`);
      rest();
    });
    return chip;
  });
  const unknown = answer.unknown.map((word) =>
    make("s", { className: "chip", title: "This word is unknown" }, word),
  );
  const excluded = answer.conditions
    .filter(({ sign }) => sign === "-")
    .map(({ word, images }) => make("s", { className: "chip", title: `Excluded: ${images} photos have it` }, word));
  wordList.replaceChildren(...[...chips, ...excluded, ...unknown].map((chip) => make("li", {}, chip)));
  list.replaceChildren(...cards);
  return (hits) => {
    const added = hits.map(toCard);
    cards.push(...added);
    list.append(...added);
    rest();
  };
}
