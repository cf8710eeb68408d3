// The page: answers what the address asks.

import { addressOf, asked } from "./address.js";
import { backends } from "./api.js";
import { makeColumn, plural } from "./column.js";
import { make } from "./dom.js";
import { makeExample } from "./similar.js";

const at = (id) => document.getElementById(id);
const form = at("form");
const first = makeColumn(answerAddress);
const second = makeColumn(answerAddress);
const example = makeExample();
at("answer").append(first);
at("answer").before(example);

let running = new AbortController();

/** Put a question into the address and answer it. */
function ask(address) {
  history.pushState(null, "", address);
  answerAddress();
}

async function answerAddress() {
  running.abort();
  running = new AbortController();
  const { signal } = running;
  const question = asked();
  form.q.value = question.q;
  chooseK(question.k);
  chooseBackends(question);
  const topic = question.like ? `Like ${question.like}` : question.q;
  document.title = topic ? `${topic} – VisualSparta` : "VisualSparta";
  const asks = topic.trim() !== "";
  at("closer").close();
  example.name(question.like);
  document.body.className = asks ? "" : "start";
  const compares = asks && question.compare !== "";
  at("answer").classList.toggle("compared", compares);
  if (compares) at("answer").append(second);
  else second.remove();
  if (!asks) return first.clear();
  // One after the other, so that neither takes the other's processor time.
  if (compares) second.setAttribute("aria-busy", "true");
  const answer = await first.ask(question, signal);
  if (question.like && !signal.aborted) example.show(answer?.url);
  if (compares && !signal.aborted) {
    await second.ask({ ...question, backend: question.compare }, signal);
  }
}

/** An address may also name the default backend, whose option has no name in it. */
function chooseBackends({ backend, compare }) {
  form.backend.value = backend;
  if (form.backend.selectedIndex < 0) form.backend.selectedIndex = 0;
  form.compare.value = compare;
}

function chooseK(k) {
  if (![...form.k.options].some((option) => option.value === k)) form.k.append(make("option", {}, k));
  form.k.value = k;
}

async function introduce() {
  const list = await backends();
  const chosen = list.find((backend) => backend.name === asked().backend) ?? list[0];
  at("corpus").textContent = plural(chosen.images, "photo", "photos");
  for (const { name, default: standard } of list) {
    form.backend.append(make("option", { value: standard ? "" : name }, name));
    form.compare.append(make("option", {}, name));
  }
  chooseBackends(asked());
  form.querySelector(".backends").hidden = list.length < 2;
  for (const text of chosen.examples) {
    at("examples").append(make("a", { href: addressOf({ q: text, like: "" }) }, text));
  }
  at("examples").hidden = chosen.examples.length === 0;
}

form.addEventListener("submit", (event) => {
  event.preventDefault();
  const { q, k, backend, compare } = form;
  const like = q.value.trim() ? "" : asked().like;
  ask(addressOf({ q: q.value, like, k: k.value, backend: backend.value, compare: compare.value }));
});
for (const select of [form.k, form.backend, form.compare]) {
  select.addEventListener("change", () => {
    if (form.q.value.trim() || asked().like) form.requestSubmit();
  });
}
// Links to questions are answered without loading the page anew.
addEventListener("click", (event) => {
  const link = event.target.closest("a[href^='?']");
  if (!link || event.ctrlKey || event.metaKey || event.shiftKey) return;
  event.preventDefault();
  ask(link.getAttribute("href"));
  if (asked().like) example.point();
});
addEventListener("popstate", answerAddress);

answerAddress();
introduce().catch(first.fail);
