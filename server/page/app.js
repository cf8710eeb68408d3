// The page: shows the results of the query in the address.

import { addressOf, currentQuery } from "./address.js";
import { backends, photo } from "./api.js";
import { makeColumn } from "./column.js";
import { make, plural } from "./dom.js";
import { offerFilters, showFilters } from "./narrow.js";
import { makeQueryImage } from "./query_image.js";
import "./suggestions.js";
import { clearSelection } from "./with_server.js";

const at = (id) => document.getElementById(id);
const form = at("form");
const first = makeColumn(showResults);
const second = makeColumn(showResults);
const queryImage = makeQueryImage();
at("answer").append(first);
at("answer").before(queryImage);

let running = new AbortController();
let address; // whose results are shown
history.scrollRestoration = "manual"; // the browser would restore before the photos are there

/** Go to the address of a query and show its results; an open photo has no place of its own in the history. */
function open(wanted) {
  rememberPlace(); // photos may have come since the last scrolling
  if (history.state?.photo) history.replaceState(null, "", wanted);
  else history.pushState(null, "", wanted);
  scrollTo(0, 0);
  showResults();
}

/** Let the place in the history know how far the results were seen. */
function rememberPlace() {
  if (location.search === address) history.replaceState({ ...history.state, scroll: scrollY, hits: first.hits() }, "");
}
let remembering;
addEventListener("scroll", () => {
  clearTimeout(remembering);
  remembering = setTimeout(rememberPlace, 100);
});

async function showResults() {
  running.abort();
  running = new AbortController();
  const { signal } = running;
  const query = currentQuery();
  const { scroll = 0, hits = 0 } = history.state ?? {};
  clearTimeout(remembering);
  address = location.search;
  form.q.value = query.q;
  chooseK(query.k);
  chooseBackends(query);
  const topic = query.like ? `Similar to ${query.like}` : query.q.trim() ? query.q : query.filter.join(" ");
  document.title = topic ? `${topic} – VisualSparta` : "VisualSparta";
  const searches = topic.trim() !== "";
  at("details").close();
  clearSelection();
  queryImage.name(query.like);
  showFilters();
  document.body.className = searches ? "" : "start";
  const compares = searches && query.compare !== "";
  at("answer").classList.toggle("compared", compares);
  if (compares) at("answer").append(second);
  else second.remove();
  if (!searches) return first.clear();
  // One after the other, so that their timings do not disturb each other.
  if (compares) second.setAttribute("aria-busy", "true");
  const answer = await first.search(query, signal, hits);
  if (scroll && !signal.aborted) scrollTo(0, scroll);
  if (query.like && !signal.aborted) queryImage.show(answer?.url);
  if (compares && !signal.aborted) {
    await second.search({ ...query, backend: query.compare }, signal);
  }
}

/** The default backend has an empty option value, but an address can contain its name. */
function chooseBackends({ backend, compare }) {
  form.backend.value = backend;
  if (form.backend.selectedIndex < 0) form.backend.selectedIndex = 0;
  form.compare.value = compare;
}

function chooseK(k) {
  if (![...form.k.options].some((option) => option.value === k)) form.k.append(make("option", {}, k));
  form.k.value = k;
}

const showSize = ({ images }) => (at("corpus").textContent = plural(images, "photo", "photos"));

async function loadBackends() {
  const list = await backends();
  const chosen = list.find((backend) => backend.name === currentQuery().backend) ?? list[0];
  showSize(chosen);
  // Dense models can be asked together: the mean of their similarities ranks.
  const dense = list.filter(({ name, explains }) => !explains && name !== "milvus");
  const together = dense.length > 1 ? [{ name: dense.map(({ name }) => name).join("+") }] : [];
  for (const { name, default: standard } of [...list, ...together]) {
    form.backend.append(make("option", { value: standard ? "" : name }, name));
    form.compare.append(make("option", {}, name));
  }
  chooseBackends(currentQuery());
  form.querySelector(".backends").hidden = list.length < 2;
  for (const text of chosen.examples) {
    at("examples").append(make("a", { href: addressOf({ q: text, like: "" }) }, text));
  }
  at("examples").hidden = chosen.examples.length === 0;
}

form.addEventListener("submit", (event) => {
  event.preventDefault();
  const { q, k, backend, compare } = form;
  const like = q.value.trim() ? "" : currentQuery().like;
  open(addressOf({ q: q.value, like, k: k.value, backend: backend.value, compare: compare.value }));
});
for (const select of [form.k, form.backend, form.compare]) {
  select.addEventListener("change", () => {
    const { like, filter } = currentQuery();
    if (form.q.value.trim() || like || filter.length) form.requestSubmit();
  });
}
// Links to queries do not reload the page.
addEventListener("click", (event) => {
  const link = event.target.closest("a[href^='?']");
  if (!link || event.ctrlKey || event.metaKey || event.shiftKey) return;
  event.preventDefault();
  open(link.getAttribute("href"));
  if (currentQuery().like) queryImage.focusTitle();
});
addEventListener("popstate", () => {
  const wasOpen = at("details").open;
  at("details").close();
  if (location.search !== address) {
    if (!history.state?.scroll) scrollTo(0, 0); // the browser would keep the end of fewer results
    showResults();
  } else if (!wasOpen && !history.state?.photo) history.back(); // from a photo that was closed before
});
addEventListener("photo-given", async ({ detail: file }) => {
  open(addressOf({ q: "", like: "", filter: [], compare: "", backend: "" }));
  document.body.className = "";
  queryImage.showFile(file);
  queryImage.focusTitle();
  await first.search({ ...currentQuery(), file }, running.signal);
});
addEventListener("photos-added", async ({ detail: ids }) => {
  try {
    const [found, [{ name }]] = await Promise.all([Promise.all(ids.map(photo)), backends()]);
    open(addressOf({ q: "", like: "", filter: [], compare: "" }));
    document.body.className = "";
    const hits = found.map((one, i) => ({ ...one, rank: i + 1, score: 0, view: null, explanation: null }));
    const answer = { backend: name, query: "", hits, total: hits.length, unknown: [], rare: [], substitutions: [], conditions: [] };
    first.show(answer, ({ hits }) => `${plural(hits.length, "photo", "photos")} added`);
    showSize((await backends())[0]);
  } catch (error) {
    first.fail(error);
  }
});
addEventListener("photos-deleted", async ({ detail: ids }) => {
  for (const column of [first, second]) column.takeOut(ids);
  showSize((await backends())[0]);
});

showResults();
loadBackends().catch(first.fail);
offerFilters(open).catch(() => {}); // the same error as of the others
