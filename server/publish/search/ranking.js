// The best images of some lists, exactly.

/** @import { Postings } from "./postings.js" */

/**
 * Add count × impact of a list to the sums of its images.
 * @param {Uint32Array} sums by position @param {Postings} postings @param {number} count
 */
export function add(sums, { positions, impacts }, count) {
  for (let i = 0; i < positions.length; i++) sums[positions[i]] += count * impacts[i];
}

/**
 * The k-th largest sum of images that may be found, at least 1.
 * @param {Uint32Array} sums by position @param {number} k @param {Uint8Array | null} allowed 0 for images not to find
 */
export function threshold(sums, k, allowed) {
  const heap = new Uint32Array(k); // the smallest of the k largest first
  for (let position = 0; position < sums.length; position++) {
    const sum = sums[position];
    if (sum > heap[0] && (!allowed || allowed[position])) replaceFirst(heap, sum);
  }
  return Math.max(1, heap[0]);
}

/** Put a value in the place of the smallest of a heap. @param {Uint32Array} heap @param {number} value */
function replaceFirst(heap, value) {
  let place = 0;
  for (;;) {
    let child = 2 * place + 1;
    if (child + 1 < heap.length && heap[child + 1] < heap[child]) child++;
    if (child >= heap.length || heap[child] >= value) break;
    heap[place] = heap[child];
    place = child;
  }
  heap[place] = value;
}

/**
 * Images with a sum of at least some value.
 * @param {Uint32Array} sums @param {number} least @param {Uint8Array | null} allowed
 * @returns {{position: number, score: number}[]}
 */
export function reaching(sums, least, allowed) {
  const found = [];
  for (let position = 0; position < sums.length; position++) {
    if (sums[position] >= least && (!allowed || allowed[position])) found.push({ position, score: sums[position] });
  }
  return found;
}

/**
 * The k best in order: falling by score, ties by the rank of the id.
 * @param {{position: number, score: number}[]} found @param {number} k
 * @param {(positions: number[]) => Promise<Map<number, number>>} ranksOf
 */
export async function ordered(found, k, ranksOf) {
  /** @type {Map<number, number>} */
  const times = new Map();
  for (const { score } of found) times.set(score, (times.get(score) ?? 0) + 1);
  const tied = found.filter(({ score }) => (times.get(score) ?? 0) > 1).map(({ position }) => position);
  const ranks = await ranksOf(tied);
  const rank = (/** @type {number} */ position) => ranks.get(position) ?? 0;
  found.sort((a, b) => b.score - a.score || rank(a.position) - rank(b.position));
  return found.slice(0, k);
}
