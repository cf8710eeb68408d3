// Explanations of scores: a query's terms, their impacts, and what won them.

import { has, weights } from "./presence.js";

/** @import { ImageRecord, Label } from "./records.js" */
/** @import { ReadWord } from "./reader.js" */

/**
 * What one term of a query contributes to the score of an image, as the REST interface has it.
 * @typedef {{term: string, word: string, count: number, impact: number, score: number, region: number | null,
 *   box: [number, number, number, number] | null, label: Label | null, similarity: number | null,
 *   sign: "" | "+" | "-"}} TermAnswer
 * @typedef {{id: number, word: string, count: number, similarity: number | null, sign: "" | "+" | "-"}} Asked
 */

/** The terms of a text, each with the first word that contains it, else that it replaces. @param {ReadWord[]} words @returns {Asked[]} */
export function termsOfWords(words) {
  return [...terms(words.filter(({ sign }) => sign !== "-")), ...terms(words.filter(({ sign }) => sign === "-"))];
}

/** @param {ReadWord[]} words @returns {Asked[]} */
function terms(words) {
  const known = words.filter((word) => !word.substitution);
  const replaced = words.filter((word) => word.substitution);
  /** @type {Map<number, ReadWord>} */
  const sources = new Map([...known, ...replaced].reverse().flatMap((word) => word.terms.map((id) => [id, word])));
  /** @type {Map<number, Asked>} */
  const found = new Map();
  for (const { terms: ids, times } of words) {
    for (const id of ids) {
      const { text, substitution, sign } = /** @type {ReadWord} */ (sources.get(id));
      const before = found.get(id)?.count ?? 0;
      found.set(id, { id, word: text, count: before + times, similarity: substitution?.similarity ?? null, sign });
    }
  }
  return [...found.values()];
}

/**
 * The explanation of an image's score.
 * @param {ImageRecord} image @param {Asked[]} asked @param {string[]} vocabulary @returns {TermAnswer[]}
 */
export function explained(image, asked, vocabulary) {
  return asked.map(({ id, word, count, similarity, sign }) => {
    const impact = image.impact(id);
    const { region, box, label } = (impact ? image.winner(id, vocabulary) : null) ?? { region: null, box: null, label: null };
    return { term: vocabulary[id], word, count, impact, score: count * impact, region, box, label, similarity, sign };
  });
}

/** The share of a query's weight that an image has. @param {ReadWord[]} words @param {ImageRecord} image @param {(term: number) => number} largestOf */
export function coverage(words, image, largestOf) {
  const own = weights(words, largestOf);
  const impactOf = (/** @type {number} */ term) => image.impact(term);
  return words.reduce((sum, word, i) => sum + (has(word, impactOf, largestOf) ? own[i] : 0), 0);
}

/** The words with signs for which a search leaves an image out. @param {ReadWord[]} words @param {ImageRecord} image @param {(term: number) => number} largestOf */
export function against(words, image, largestOf) {
  const impactOf = (/** @type {number} */ term) => image.impact(term);
  const out = words.filter((word) => word.sign && has(word, impactOf, largestOf) === (word.sign === "-"));
  return out.map(({ sign, text }) => sign + text);
}
