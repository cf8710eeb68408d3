// Which images have a word: what the signs of a query and coverage are decided by.

/** @import { ReadWord } from "./reader.js" */
/** @import { Postings } from "./postings.js" */

// Share of the term's largest impact in the index with which an image has a term.
const PRESENT = 0.45;

/** The smallest impact with which an image has a term. @param {number} largest impact of any image */
export const leastImpact = (largest) => Math.max(1, Math.ceil(PRESENT * largest));

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
export const has = (word, impactOf, largestOf) =>
  word.terms.length > 0 && word.terms.every((term) => impactOf(term) >= leastImpact(largestOf(term)));
