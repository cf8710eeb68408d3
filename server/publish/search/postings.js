// The lists of postings: which chunks have them, and what is in these.

import { Bytes } from "./bytes.js";

/** @import { Pack } from "./files.js" */
/** @import { About } from "./index.js" */

/**
 * Postings of a term: positions of images, rising, with their impacts.
 * @typedef {{positions: Uint32Array, impacts: Uint16Array}} Postings
 * Where the list of a term is: in one chunk, after lists of the lengths `before`, or in `chunks` of
 * its own, of `step` superblocks each, with `bounds` by their number, else -1.
 * @typedef {{first: number, chunks: number, step: number, bounds: number, before: number[]}} Place
 */

/** The terms of an index: in how many images each is, its largest impact, and where its list is. */
export class Terms {
  /** @param {Uint8Array} content @param {number} vocabulary @param {About} about */
  constructor(content, vocabulary, about) {
    const bytes = new Bytes(content);
    this.frequencies = bytes.numbers(vocabulary);
    this.largest = new Uint16Array(vocabulary);
    for (let term = 0; term < vocabulary; term++) {
      if (this.frequencies[term]) this.largest[term] = bytes.number();
    }
    /** @type {Map<number, Place>} */
    this.places = new Map();
    this.#plan(about);
  }

  /** Where each list is follows from the frequencies, as `chunk_plan` has it. @param {About} about */
  #plan({ images, superblock, chunk: most }) {
    const superblocks = Math.ceil(images / superblock);
    const rows = [...this.frequencies.keys()].filter((term) => this.frequencies[term]);
    rows.sort((a, b) => this.frequencies[b] - this.frequencies[a] || a - b);
    let first = 0;
    let room = 0;
    /** @type {number[]} */
    let before = [];
    for (const [row, term] of rows.entries()) {
      const frequency = this.frequencies[term];
      if (frequency > most) {
        const step = Math.max(1, Math.floor((most * superblocks) / frequency));
        const chunks = Math.ceil(superblocks / step);
        this.places.set(term, { first, chunks, step, bounds: row, before: [] });
        first += chunks;
        continue;
      }
      if (frequency > room || !before.length) {
        if (before.length) first++;
        before = [];
        room = most;
      }
      this.places.set(term, { first, chunks: 1, step: superblocks, bounds: -1, before: [...before] });
      before.push(frequency);
      room -= frequency;
    }
  }
}

/** Reads lists. */
export class Lists {
  /** @param {Terms} terms @param {Pack} pack @param {About} about */
  constructor(terms, pack, about) {
    this.terms = terms;
    this.pack = pack;
    this.about = about;
  }

  /** The whole lists of some terms. @param {number[]} terms @returns {Promise<Postings[][]>} in parts */
  async read(terms) {
    const places = terms.map((term) => this.terms.places.get(term));
    const numbers = places.map((place) => (place ? Array.from({ length: place.chunks }, (_, i) => place.first + i) : []));
    const contents = await this.pack.read(numbers.flat());
    let at = 0;
    return terms.map((term, i) => numbers[i].map((_, part) => this.decoded(term, part, contents[at++])));
  }

  /** A term's postings in a chunk, @param {number} term @param {number} part of its chunks @param {Uint8Array} content @returns {Postings} */
  decoded(term, part, content) {
    const { bounds, step, before } = /** @type {Place} */ (this.terms.places.get(term));
    const { superblock, bits } = this.about;
    const planes = bits > 8 ? 2 : 1;
    const { gaps, end } = allGaps(content, planes);
    const skipped = before.reduce((sum, one) => sum + one, 0);
    const count = bounds < 0 ? this.terms.frequencies[term] : gaps.length;
    const positions = new Uint32Array(count);
    const impacts = new Uint16Array(count);
    let position = part * step * superblock - 1;
    for (let i = 0; i < count; i++) {
      positions[i] = position += gaps[skipped + i] + 1;
      impacts[i] = content[end + skipped + i];
    }
    if (planes > 1) for (let i = 0; i < count; i++) impacts[i] |= content[end + gaps.length + skipped + i] << 8;
    return { positions, impacts };
  }
}

/**
 * The gaps with which a chunk begins, and where they end: where as many impacts follow.
 * @param {Uint8Array} content @param {number} planes bytes of an impact
 */
function allGaps(content, planes) {
  const gaps = new Uint32Array(Math.floor(content.length / (1 + planes)));
  let at = 0;
  let found = 0;
  while (at + found * planes < content.length) {
    let byte = content[at++];
    let gap = byte & 127;
    for (let shift = 7; byte > 127; shift += 7) {
      byte = content[at++];
      gap |= (byte & 127) << shift;
    }
    gaps[found++] = gap;
  }
  return { gaps: gaps.subarray(0, found), end: at };
}
