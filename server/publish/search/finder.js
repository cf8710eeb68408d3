// Finds the best images of a query, exactly, fetching as little as that needs.

/** @import { Lists, Postings } from "./postings.js" */
/** @import { Pack } from "./files.js" */
/** @import { About } from "./index.js" */

/** @typedef {{position: number, score: number}} Found */

const FEW = 1 << 17; // bytes that are fetched rather than looked at for what can be left out
const LEADERS = 8; // superblocks that are fetched first

export class Finder {
  /** @param {About} about @param {Lists} lists @param {Pack} bounds @param {Pack} ranks */
  constructor(about, lists, bounds, ranks) {
    this.about = about;
    this.lists = lists;
    this.bounds = bounds;
    this.ranks = ranks;
    this.few = FEW;
    /** Called with the images found, before they are ordered. @type {(positions: number[]) => void} */
    this.found = () => {};
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
    const most = Math.min(k, this.about.images);
    const terms = [...counts.keys()];
    const whole = terms.filter((term) => !this.#isDivided(term));
    const divided = terms.filter((term) => this.#isDivided(term));
    const few = (await this.lists.bytes(divided)) <= this.few;
    const sums = few ? await this.sums(counts) : await this.#best(counts, whole, divided, most, allowed);
    const least = threshold(sums, most, allowed);
    const found = reaching(sums, least, allowed);
    this.found(found.slice(0, k).map(({ position }) => position));
    return ordered(found, k, (positions) => this.ranksOf(positions));
  }

  /** Whether a term has chunks of its own. @param {number} term */
  #isDivided(term) {
    return (this.lists.place(term)?.bounds ?? -1) >= 0;
  }

  /**
   * The scores of all images that may be among the best; those of others are too low.
   *
   * A superblock's bound is the sum of its terms' largest impacts there. Those of the highest bounds
   * come first; others below the k-th best score are not fetched.
   * @param {Map<number, number>} counts @param {number[]} whole terms @param {number[]} divided terms, in chunks of their own
   * @param {number} k @param {Uint8Array | null} allowed
   */
  async #best(counts, whole, divided, k, allowed) {
    const { superblock } = this.about;
    const [sums, maxima] = await Promise.all([
      this.sums(new Map(whole.map((term) => [term, counts.get(term) ?? 0]))),
      this.lists.bounds(divided, this.bounds),
    ]);
    const bounds = largestOfEach(sums, superblock, allowed);
    for (const [i, term] of divided.entries()) {
      const count = counts.get(term) ?? 0;
      for (let s = 0; s < bounds.length; s++) bounds[s] += count * maxima[i][s];
    }
    if (allowed) clearEmpty(bounds, superblock, allowed);
    const leading = [...bounds.keys()].sort((a, b) => bounds[b] - bounds[a]).slice(0, LEADERS);
    const complete = new Uint8Array(bounds.length);
    const read = divided.map(() => new Set());
    const fetchAt = async (/** @type {number[]} */ superblocks) => {
      for (const s of superblocks) complete[s] = 1;
      await this.lists.readAt(divided, superblocks, maxima, read, (i, part) => add(sums, part, counts.get(divided[i]) ?? 0));
    };
    await fetchAt(leading);
    const least = threshold(sumsOf(complete, sums, superblock), k, allowed);
    await fetchAt([...bounds.keys()].filter((s) => !complete[s] && bounds[s] >= least));
    return sumsOf(complete, sums, superblock);
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

/** The largest sum of each superblock. @param {Uint32Array} sums @param {number} superblock images of one @param {Uint8Array | null} allowed */
function largestOfEach(sums, superblock, allowed) {
  const largest = new Uint32Array(Math.ceil(sums.length / superblock));
  for (let position = 0; position < sums.length; position++) {
    const s = Math.floor(position / superblock);
    if (sums[position] > largest[s] && (!allowed || allowed[position])) largest[s] = sums[position];
  }
  return largest;
}

/** The sums of some superblocks, 0 in others. @param {Uint8Array} complete 1 for each @param {Uint32Array} sums @param {number} superblock images of one */
function sumsOf(complete, sums, superblock) {
  const known = sums.slice();
  for (let s = 0; s < complete.length; s++) if (!complete[s]) known.fill(0, s * superblock, (s + 1) * superblock);
  return known;
}

/** Set the bounds of superblocks without an image that may be found to 0. @param {Uint32Array} bounds @param {number} superblock @param {Uint8Array} allowed */
function clearEmpty(bounds, superblock, allowed) {
  for (let s = 0; s < bounds.length; s++) {
    if (!allowed.subarray(s * superblock, (s + 1) * superblock).includes(1)) bounds[s] = 0;
  }
}

/**
 * Add count × impact of a list to the sums of its images.
 * @param {Uint32Array} sums by position @param {Postings} postings @param {number} count
 */
function add(sums, { positions, impacts }, count) {
  for (let i = 0; i < positions.length; i++) sums[positions[i]] += count * impacts[i];
}

/**
 * The k-th largest sum of images that may be found, at least 1.
 * @param {Uint32Array} sums by position @param {number} k @param {Uint8Array | null} allowed 0 for images not to find
 */
function threshold(sums, k, allowed) {
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
function reaching(sums, least, allowed) {
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
async function ordered(found, k, ranksOf) {
  /** @type {Map<number, number>} */
  const times = new Map();
  for (const { score } of found) times.set(score, (times.get(score) ?? 0) + 1);
  const tied = found.filter(({ score }) => (times.get(score) ?? 0) > 1).map(({ position }) => position);
  const ranks = await ranksOf(tied);
  const rank = (/** @type {number} */ position) => ranks.get(position) ?? 0;
  found.sort((a, b) => b.score - a.score || rank(a.position) - rank(b.position));
  return found.slice(0, k);
}
