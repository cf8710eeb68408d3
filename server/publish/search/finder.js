// Finds the best images of a query, fetching as little as an exact answer needs.

import { add, ordered, reaching, threshold } from "./ranking.js";

/** @import { Lists, Postings } from "./postings.js" */
/** @import { Pack } from "./files.js" */
/** @import { About } from "./index.js" */

/** @typedef {{position: number, score: number}} Found */

export class Finder {
  /** @param {About} about @param {Lists} lists @param {Pack} bounds @param {Pack} ranks */
  constructor(about, lists, bounds, ranks) {
    this.about = about;
    this.lists = lists;
    this.bounds = bounds;
    this.ranks = ranks;
  }

  /** The scores of all images. @param {Map<number, number>} counts of terms */
  async sums(counts) {
    const terms = [...counts.keys()];
    const lists = await this.lists.read(terms);
    const sums = new Uint32Array(this.about.images);
    for (const [i, parts] of lists.entries()) {
      for (const part of parts) add(sums, part, counts.get(terms[i]) ?? 0);
    }
    return sums;
  }

  /**
   * The k best images, ties by id.
   * @param {Map<number, number>} counts of terms @param {number} k @param {Uint8Array | null} allowed
   * @returns {Promise<Found[]>}
   */
  async top(counts, k, allowed) {
    const sums = await this.sums(counts);
    const least = threshold(sums, Math.min(k, this.about.images), allowed);
    return ordered(reaching(sums, least, allowed), k, (positions) => this.ranksOf(positions));
  }

  /**
   * Some images in an order, ties by id.
   * @param {Uint8Array} found 1 for each @param {Float64Array} keys by position, rising @param {number} count at most
   */
  async first(found, keys, count) {
    const positions = [...found.keys()].filter((position) => found[position]);
    const ranks = await this.ranksOf(positions);
    const rank = (/** @type {number} */ position) => ranks.get(position) ?? 0;
    const order = (/** @type {number} */ a, /** @type {number} */ b) => (keys[a] < keys[b] ? -1 : keys[a] > keys[b] ? 1 : rank(a) - rank(b));
    return positions.sort(order).slice(0, count);
  }

  /** The ranks of the ids of some images. @param {number[]} positions @returns {Promise<Map<number, number>>} */
  async ranksOf(positions) {
    const { images, superblock } = this.about;
    const contents = await this.ranks.read(positions.map((one) => Math.floor(one / superblock)));
    const size = Math.max(1, Math.ceil(Math.ceil(Math.log2(images)) / 8));
    return new Map(
      positions.map((position, i) => {
        const at = (position % superblock) * size;
        let rank = 0;
        for (let byte = size - 1; byte >= 0; byte--) rank = rank * 256 + contents[i][at + byte];
        return [position, rank];
      }),
    );
  }
}
