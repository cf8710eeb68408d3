// The results of one backend: hits, timings, or an error.

import { addressOf, inCondition } from "./address.js";
import { search } from "./api.js";
import { openDetails } from "./details.js";
import { make, plural } from "./dom.js";
import { showAnswer } from "./grid.js";

const LOADING_AFTER = 1500;
const MOST = 1000; // hits of a page
const WORDS = "Words of the query: point at one to show its region in every photo";

const quoted = (words) => words.map((word) => `“${word}”`).join(", ");

function ms(value) {
  if (value < 0.1) return "< 0.1 ms";
  return `${value < 10 ? value.toFixed(1) : Math.round(value)} ms`;
}

/** Number of hits, the time to read the query (text, or an image's terms) and to search. */
function summary(answer, explains) {
  const { backend, hits, cursor, total, terms, unknown, corrections, substitutions, timings } = answer;
  const { missing_images: missing, rare } = answer;
  const more = cursor && total === null ? " so far" : "";
  const count = `${plural(total ?? hits.length, "photo", "photos")}${more}`;
  const found = hits.length ? count : "No photo matches";
  const before = ms(timings.tokenise_ms + timings.encode_ms);
  const time = `${terms?.length ? "terms" : "text"} ${before} · search ${ms(timings.search_ms)}`;
  const parts = hits.length || !unknown.length ? [found, time] : [found];
  if (missing) parts.push(`${plural(missing, "photo", "photos")} unknown to ${backend}`);
  const nearest = substitutions.filter(({ similarity }) => similarity !== null);
  if (nearest.length) {
    const arrows = nearest.map(({ word, term }) => `“${word}” → “${term}”`);
    parts.push(`nearest words: ${arrows.join(", ")}`);
  }
  if (rare.length) parts.push(`rarely seen in training, results may be wrong: ${quoted(rare)}`);
  if (unknown.length) {
    parts.push(`${explains ? "not in the index" : `unknown to ${backend}`}: ${quoted(unknown)}`);
  }
  const similar = corrections.filter(({ word }) => unknown.includes(word));
  if (similar.length) parts.push(`similar words: ${quoted(similar.flatMap(({ words }) => words))}`);
  return parts.join(" · ");
}

/** What was searched for misspelt words, and a link that searches them as typed. */
function corrected({ substitutions }) {
  const misspelt = substitutions.filter(({ similarity }) => similarity === null);
  if (!misspelt.length) return [];
  const link = make("a", { href: addressOf({ exact: "1" }) }, `Search for ${quoted(misspelt.map(({ word }) => word))} instead`);
  return [`Showing photos for ${quoted(misspelt.map(({ term }) => term))}. `, link];
}

/**
 * An element with `search(query, signal)`, which returns the answer, `show(answer, describe)`, which
 * shows one that there is, `takeOut(ids)`, which takes photos out of it, `clear()` and `fail(error)`.
 */
export function makeColumn(tryAgain) {
  const title = make("h2", { className: "backend-name" });
  const words = make("ul", { className: "words", "aria-label": WORDS });
  const status = make("p", { className: "status", role: "status" });
  const spelling = make("p", { className: "spelling" });
  const errorTitle = make("h2");
  const errorText = make("p");
  const again = make("button", { type: "button" }, "Try again");
  again.addEventListener("click", tryAgain);
  const alert = make("div", { className: "error", role: "alert", hidden: true }, errorTitle, errorText, again);
  const list = make("ol", { className: "hits" });
  const summaryLine = make("div", { className: "summary" }, title, words, spelling, status);
  const more = make("button", { type: "button", className: "more", hidden: true }, "Show more photos");
  const column = make("section", { className: "column", "aria-label": "Results" }, summaryLine, alert, list, more);
  let next = null; // shows the next page
  let shown = null; // the answer
  let described = null; // its text

  more.addEventListener("click", () => next?.());
  // Twice the height of the window before the end of the photos comes into sight.
  new IntersectionObserver(([end]) => end.isIntersecting && next?.(), { rootMargin: "200%" }).observe(more);

  column.clear = () => {
    shown = null;
    alert.hidden = true;
    follow(null);
    list.replaceChildren();
    words.replaceChildren();
    spelling.replaceChildren();
    title.textContent = status.textContent = "";
    column.removeAttribute("aria-busy");
  };
  /** Offer the page after an answer, if there is one. */
  function follow(answer, query, signal, append) {
    more.hidden = !answer?.cursor;
    next = more.hidden ? null : async () => {
      next = null;
      try {
        const page = await search({ ...query, cursor: answer.cursor }, signal);
        append(page.hits);
        answer.hits.push(...page.hits);
        answer.cursor = page.cursor;
        status.textContent = described(answer);
        follow(answer, query, signal, append);
      } catch (error) {
        if (!signal.aborted) column.fail(error);
      }
    };
    lookForMore();
  }
  // The observer does not look again if a page was short, or photos were taken out.
  const lookForMore = () => next && requestAnimationFrame(() => reachesEnd() && next?.());
  const reachesEnd = () => !more.hidden && more.getBoundingClientRect().top < 3 * innerHeight;

  column.takeOut = (ids) => {
    if (!shown) return;
    const before = shown.hits.length;
    shown.hits = shown.hits.filter((hit) => !ids.includes(hit.image_id));
    if (shown.total !== null) shown.total -= before - shown.hits.length;
    for (const card of [...list.children]) if (ids.includes(card.imageId)) card.remove();
    status.textContent = described(shown);
    lookForMore();
  };
  column.fail = (error) => {
    column.clear();
    errorTitle.textContent = error.title ?? "Something went wrong on this page";
    errorText.textContent = inCondition(error.message);
    alert.hidden = false;
  };
  column.show = (answer, describe) => {
    [shown, described] = [answer, describe];
    alert.hidden = true;
    status.textContent = describe(answer);
    spelling.replaceChildren(...corrected(answer));
    return showAnswer(answer, list, words, (hit) => openDetails(answer, answer.hits.indexOf(hit)));
  };
  column.hits = () => shown?.hits.length ?? 0;
  /** Search for a query; the first page has at least `least` hits. */
  column.search = async (query, signal, least = 0) => {
    alert.hidden = true;
    follow(null);
    status.textContent = "Searching…";
    column.setAttribute("aria-busy", "true");
    let answer;
    const loading = setTimeout(() => {
      if (query.backend) status.textContent = "Searching… loading a model takes a few seconds";
    }, LOADING_AFTER);
    try {
      answer = await search(least > query.k ? { ...query, k: Math.min(least, MOST) } : query, signal);
      const explains = answer.hits.some((hit) => hit.explanation);
      const append = column.show(answer, (one) => summary(one, explains || !one.hits.length));
      follow(answer, query, signal, append);
      title.textContent = answer.backend;
      column.setAttribute("aria-label", `Results of ${answer.backend}`);
    } catch (error) {
      if (signal.aborted) return;
      column.fail(error);
    } finally {
      clearTimeout(loading);
    }
    column.removeAttribute("aria-busy");
    return answer;
  };
  return column;
}
