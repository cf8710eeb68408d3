// The page: what is asked stands in the address, so that it can be shared and gone back to.

import { backends, search } from "./api.js";
import { openCloser } from "./closer.js";
import { make } from "./dom.js";
import { showAnswer } from "./grid.js";

const at = (id) => document.getElementById(id);
const form = at("form");
const plural = (n, one, many) => `${n.toLocaleString("en")} ${n === 1 ? one : many}`;
const ms = (value) => `${value < 10 ? value.toFixed(1) : Math.round(value)} ms`;
const quoted = (words) => words.map((word) => `“${word}”`).join(", ");

let running = new AbortController();

/** What the address asks: {q, k, backend}. */
function asked() {
  const params = new URLSearchParams(location.search);
  return {
    q: params.get("q") ?? "",
    k: params.get("k") ?? "20",
    backend: params.get("backend") ?? "",
  };
}

/** Put a question into the address, leaving out what is not said, and answer it. */
function ask(question) {
  const params = Object.entries({ ...asked(), ...question }).filter(([, value]) => value !== "");
  history.pushState(null, "", `?${new URLSearchParams(params)}`);
  answerAddress();
}

async function answerAddress() {
  running.abort();
  running = new AbortController();
  const { signal } = running;
  const question = asked();
  form.q.value = question.q;
  chooseK(question.k);
  form.backend.value = question.backend;
  document.title = question.q ? `${question.q} – VisualSparta` : "VisualSparta";
  document.body.className = question.q.trim() ? "busy" : "start";
  at("error").hidden = true;
  at("status").textContent = question.q.trim() ? "Searching…" : "";
  if (!question.q.trim()) return clear();
  try {
    const answer = await search(question, signal);
    showAnswer(answer, at("hits"), at("words"), (position) => openCloser(answer.hits, position));
    at("status").textContent = summary(answer);
  } catch (error) {
    if (signal.aborted) return;
    clear();
    showError(error);
  }
  document.body.className = "";
}

function chooseK(k) {
  if (![...form.k.options].some((option) => option.value === k)) form.k.append(make("option", {}, k));
  form.k.value = k;
}

function clear() {
  at("hits").replaceChildren();
  at("words").replaceChildren();
}

function summary({ hits, unknown, timings }) {
  const found = hits.length ? plural(hits.length, "photo", "photos") : "No photo matches";
  const time = `${ms(timings.total_ms)} search`;
  if (!unknown.length) return `${found} · ${time}`;
  const lost = `The index does not know ${quoted(unknown)}`;
  return hits.length ? `${found} · ${time} · ${lost}` : `${lost}, so no photo matches`;
}

function showError(error) {
  at("error").querySelector("h2").textContent = error.title ?? "The page failed";
  at("error").querySelector("p").textContent = error.message;
  at("error").hidden = false;
  at("status").textContent = "";
}

async function introduce() {
  const list = await backends();
  const chosen = list.find((backend) => backend.name === asked().backend) ?? list[0];
  at("corpus").textContent = plural(chosen.images, "photo", "photos");
  for (const { name, default: standard } of list) {
    form.backend.append(make("option", { value: standard ? "" : name }, name));
  }
  form.backend.value = asked().backend;
  form.querySelector(".backend").hidden = list.length < 2;
  for (const text of chosen.examples) {
    const link = make("a", { href: `?${new URLSearchParams({ q: text })}` }, text);
    link.addEventListener("click", (event) => {
      if (event.ctrlKey || event.metaKey || event.shiftKey) return;
      event.preventDefault();
      ask({ q: text });
    });
    at("examples").append(link);
  }
  at("examples").hidden = chosen.examples.length === 0;
}

form.addEventListener("submit", (event) => {
  event.preventDefault();
  ask({ q: form.q.value, k: form.k.value, backend: form.backend.value });
});
for (const select of [form.k, form.backend]) {
  select.addEventListener("change", () => form.q.value.trim() && form.requestSubmit());
}
at("error").querySelector("button").addEventListener("click", answerAddress);
addEventListener("popstate", answerAddress);

answerAddress();
introduce().catch(showError);
