// Which images have a word, for signs and coverage; explanations.

import { OPERATORS } from "./grammar.js";
import { counts } from "./reader.js";

/** @import { Sign } from "./grammar.js" */
/** @import { ImageRecord, Label } from "./records.js" */
/** @import { ReadWord } from "./reader.js" */
/** @import { Postings } from "./postings.js" */

/**
 * What a term adds to an image's score, as the REST interface has it.
 * @typedef {{term: string, word: string, count: number, impact: number, score: number, region: number | null,
 *   box: [number, number, number, number] | null, label: Label | null, similarity: number | null,
 *   sign: Sign}} TermAnswer
 * @typedef {{id: number, word: string, count: number, similarity: number | null, sign: Sign}} Asked
 */

/** The terms of a text, each with its first word. @param {ReadWord[]} words @returns {Asked[]} */
export function termsOfWords(words) {
  return [...terms(words.filter(counts)), ...terms(words.filter((word) => !counts(word)))];
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
  const share = words.reduce((sum, word, i) => sum + (has(word, impactOf, largestOf) ? own[i] : 0), 0);
  return Math.min(share, 1); // rounding may exceed 1
}

/** The signed words that leave an image out. @param {ReadWord[]} words @param {ImageRecord} image @param {(term: number) => number} largestOf */
export function against(words, image, largestOf) {
  const impactOf = (/** @type {number} */ term) => image.impact(term);
  const out = words.filter((word) => {
    const { required } = OPERATORS[word.sign];
    return required !== null && has(word, impactOf, largestOf) !== required;
  });
  return out.map(({ sign, text }) => sign + text);
}

// Share of its largest impact with which an image has a term.
const PRESENT = 0.45;

/** The smallest impact with which an image has a term. @param {number} largest impact of any image */
const leastImpact = (largest) => Math.max(1, Math.ceil(PRESENT * largest));

/**
 * Which images have a word: 1 for those with a large enough impact for each of its terms.
 * @param {Postings[][]} lists of its terms, in parts @param {number[]} largest of its terms @param {number} images
 */
export function having(lists, largest, images) {
  const found = new Uint8Array(images);
  for (const [term, parts] of lists.entries()) {
    const least = leastImpact(largest[term]);
    for (const { positions, impacts } of parts) {
      for (let i = 0; i < positions.length; i++) {
        if (impacts[i] >= least && found[positions[i]] === term) found[positions[i]]++;
      }
    }
  }
  for (let i = 0; i < images; i++) found[i] = Number(lists.length > 0 && found[i] === lists.length);
  return found;
}

/**
 * The share of each word in the weight of a query; all 0 for a query of unknown words. A word's weight
 * is its count times the largest sum of impacts that its terms could have, that of an unknown word
 * the mean of the others.
 * @param {ReadWord[]} words @param {(term: number) => number} largestOf
 */
export function weights(words, largestOf) {
  const largest = words.map(({ terms }) => terms.reduce((sum, term) => sum + largestOf(term), 0));
  const known = largest.filter((one, i) => one > 0 && words[i].times > 0);
  if (!known.length) return words.map(() => 0);
  const mean = known.reduce((sum, one) => sum + one, 0) / known.length;
  const own = words.map(({ times }, i) => times * (largest[i] > 0 && times > 0 ? largest[i] : mean));
  const sum = own.reduce((all, one) => all + one, 0);
  return own.map((one) => one / sum);
}

/** Whether an image has a word, @param {ReadWord} word @param {(term: number) => number} impactOf @param {(term: number) => number} largestOf */
const has = (word, impactOf, largestOf) =>
  word.terms.length > 0 && word.terms.every((term) => impactOf(term) >= leastImpact(largestOf(term)));
