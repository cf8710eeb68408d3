// The lists of postings: which chunks have them, and what is in these.

import { Bytes } from "./files.js";

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

  /** Where the list of a term is; undefined if no image has it. @param {number} term */
  place(term) {
    return this.terms.places.get(term);
  }

  /** The bytes of the lists of some terms. @param {number[]} terms */
  async bytes(terms) {
    const places = terms.flatMap((term) => this.place(term) ?? []);
    const lengths = await Promise.all(places.map(({ first, chunks }) => this.pack.length(first, first + chunks)));
    return lengths.reduce((sum, one) => sum + one, 0);
  }

  /** The largest impact of each superblock for terms with chunks of their own. @param {number[]} terms @param {Pack} pack */
  async bounds(terms, pack) {
    const contents = await pack.read(terms.map((term) => this.place(term)?.bounds ?? 0));
    const scale = 2 ** Math.max(0, this.about.bits - 8);
    return contents.map((content, i) => {
      const largest = this.terms.largest[terms[i]];
      return Uint16Array.from(content, (one) => (one === 255 ? largest : Math.min(largest, one * scale)));
    });
  }

  /**
   * The postings of terms with chunks of their own, in some superblocks and the rest of these chunks.
   * @param {number[]} terms @param {number[]} superblocks @param {Uint16Array[]} maxima of the terms
   * @param {Set<number>[]} read the chunks of each term that were read before; changed
   * @param {(term: number, postings: Postings) => void} take called with the number of the term in `terms`
   */
  async readAt(terms, superblocks, maxima, read, take) {
    const wanted = terms.flatMap((term, i) => {
      const { step } = /** @type {Place} */ (this.place(term));
      const parts = new Set(superblocks.filter((s) => maxima[i][s]).map((s) => Math.floor(s / step)));
      return [...parts].filter((part) => !read[i].has(part)).map((part) => ({ i, part }));
    });
    const chunks = wanted.map(({ i, part }) => (this.place(terms[i])?.first ?? 0) + part);
    for (const [at, content] of (await this.pack.read(chunks)).entries()) {
      const { i, part } = wanted[at];
      read[i].add(part);
      take(i, this.decoded(terms[i], part, content));
    }
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
