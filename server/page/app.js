// The page: what is asked stands in the address, so that it can be shared and gone back to.

import { backends } from "./api.js";
import { makeColumn, plural } from "./column.js";
import { make } from "./dom.js";

const at = (id) => document.getElementById(id);
const form = at("form");
const first = makeColumn(answerAddress);
const second = makeColumn(answerAddress);
at("answer").append(first);

let running = new AbortController();

/** What the address asks: {q, k, backend, compare}, the last a second backend to put beside. */
function asked() {
  const params = new URLSearchParams(location.search);
  return {
    q: params.get("q") ?? "",
    k: params.get("k") ?? "20",
    backend: params.get("backend") ?? "",
    compare: params.get("compare") ?? "",
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
  chooseBackends(question);
  document.title = question.q ? `${question.q} – VisualSparta` : "VisualSparta";
  const asks = question.q.trim() !== "";
  document.body.className = asks ? "" : "start";
  const compares = asks && question.compare !== "";
  at("answer").classList.toggle("compared", compares);
  if (compares) at("answer").append(second);
  else second.remove();
  if (!asks) return first.clear();
  // One after the other, so that neither takes the other's processor time.
  if (compares) second.setAttribute("aria-busy", "true");
  await first.ask(question, signal);
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
  const { q, k, backend, compare } = form;
  ask({ q: q.value, k: k.value, backend: backend.value, compare: compare.value });
});
for (const select of [form.k, form.backend, form.compare]) {
  select.addEventListener("change", () => form.q.value.trim() && form.requestSubmit());
}
addEventListener("popstate", answerAddress);

answerAddress();
introduce().catch(first.fail);
