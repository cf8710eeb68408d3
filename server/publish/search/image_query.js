// Query by image: the top ten terms of one image or several as a weighted query.

const TERMS = 10;
const COUNTS = 256; // what counts add up to at most

/** @typedef {Map<number, number>} Weights of terms */

/** @param {Weights} weights @param {number} counts @returns {Weights} */
function shares(weights, counts) {
  const total = [...weights.values()].reduce((sum, one) => sum + one, 0);
  const own = [...weights].map(([term, weight]) => /** @type {[number, number]} */ ([term, Math.floor((weight * counts) / total)]));
  return new Map(own.filter(([, share]) => share));
}

/** @param {Weights} impacts of all terms of the images, added, in an order that breaks ties @param {number} counts */
function imageQuery(impacts, counts) {
  const strongest = [...impacts].sort((a, b) => b[1] - a[1]).slice(0, TERMS);
  return shares(new Map(strongest), counts);
}

/**
 * The query for images similar to some, and to words as well; both have half of the weight.
 * @param {Weights} impacts of all terms of the images, added, in an order that breaks ties @param {Weights} words terms with their counts
 */
export function imagesAndWords(impacts, words) {
  if (!words.size) return imageQuery(impacts, COUNTS);
  const query = imageQuery(impacts, COUNTS / 2);
  for (const [term, share] of shares(words, COUNTS / 2)) query.set(term, (query.get(term) ?? 0) + share);
  return new Map([...query].sort((a, b) => b[1] - a[1]));
}
