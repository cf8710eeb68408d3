// Words that complete the query while it is typed.

import { suggestions } from "./api.js";
import { make } from "./dom.js";

const PAUSE = 120; // milliseconds without a key
const input = document.querySelector("#q");
const list = document.querySelector("#suggestions");

let waiting;
let running = new AbortController();
let active = -1;

function close() {
  clearTimeout(waiting);
  running.abort();
  list.hidden = true;
  input.setAttribute("aria-expanded", "false");
  activate(-1);
}

function activate(position) {
  active = position;
  [...list.children].forEach((option, i) => option.setAttribute("aria-selected", `${i === active}`));
  if (active < 0) input.removeAttribute("aria-activedescendant");
  else input.setAttribute("aria-activedescendant", list.children[active].id);
}

function choose(text) {
  input.value = `${text} `;
  close();
  input.focus();
}

function makeOption({ text, word, images }, i) {
  const count = make("small", {}, images.toLocaleString("en"));
  const option = make("li", { id: `suggestion-${i}`, role: "option", "aria-selected": "false" }, word, " ", count);
  option.dataset.text = text;
  // Before the field loses the focus, which closes the list.
  option.addEventListener("pointerdown", (event) => {
    event.preventDefault();
    choose(text);
  });
  return option;
}

async function show() {
  running.abort();
  running = new AbortController();
  try {
    const found = await suggestions(input.value, running.signal);
    const typed = input.value.toLowerCase();
    const others = found.filter(({ text }) => text.toLowerCase() !== typed);
    list.replaceChildren(...others.map(makeOption));
    activate(-1);
    list.hidden = others.length === 0;
    input.setAttribute("aria-expanded", `${!list.hidden}`);
  } catch {
    close(); // a search says what is wrong
  }
}

input.addEventListener("input", () => {
  clearTimeout(waiting);
  if (/\S$/.test(input.value)) waiting = setTimeout(show, PAUSE);
  else close();
});
input.addEventListener("blur", close);
input.form.addEventListener("submit", close);
input.addEventListener("keydown", (event) => {
  if (list.hidden) return;
  const count = list.children.length;
  if (event.key === "ArrowDown") activate((active + 2) % (count + 1) - 1);
  else if (event.key === "ArrowUp") activate((active + count + 1) % (count + 1) - 1);
  else if (event.key === "Escape") close();
  else if (event.key === "Enter" && active >= 0) choose(list.children[active].dataset.text);
  else return;
  event.preventDefault();
});
