// What the index knows of an image, and what won its terms.

import { Bytes, parsed } from "./files.js";
import { joined } from "./tokenizer.js";

/** @import { Pack } from "./files.js" */

/**
 * A token of a region's label that won, and the whole label.
 * @typedef {{token: string, words: string}} Label
 * @typedef {{region: number, box: [number, number, number, number], label: Label | null}} Winner
 */

const HEADER = 14; // bytes of a grounding's header
const LARGEST_CORNER = 65535;

/** One image. */
export class ImageRecord {
  /**
   * @param {[number, string, Record<string, any>, string | null]} about rank, id, metadata and photo
   * @param {Uint8Array} grounding packed as `indexer/grounding.py` has it
   * @param {Bytes} impacts of its terms
   */
  constructor([rank, id, metadata, photo], grounding, impacts) {
    this.rank = rank;
    this.id = id;
    this.metadata = metadata;
    this.photo = photo;
    this.bytes = grounding;
    const view = new DataView(grounding.buffer, grounding.byteOffset, grounding.byteLength);
    this.view = view;
    this.positionSize = view.getUint8(0);
    this.labelSize = view.getUint8(1);
    const count = view.getUint32(2, true);
    this.boxes = view.getUint16(10, true);
    this.labels = view.getUint16(12, true);
    this.positions = HEADER + view.getUint32(6, true);
    this.corners = this.positions + count * this.positionSize;
    this.labelTerms = this.corners + 8 * this.boxes;
    this.labelRegions = this.labelTerms + this.labels * this.labelSize;
    /** The terms, rising, each with its impact and its number. @type {Map<number, {impact: number, number: number}>} */
    this.terms = new Map();
    let term = 0;
    for (let at = HEADER; at < this.positions; at++) {
      term += grounding[at];
      if (grounding[at] < 255) this.terms.set(term, { impact: impacts.number(), number: this.terms.size });
    }
  }

  /** @param {number} term */
  impact(term) {
    return this.terms.get(term)?.impact ?? 0;
  }

  /** @param {number} at @param {number} size */
  #number(at, size) {
    if (size === 1) return this.view.getUint8(at);
    return size === 2 ? this.view.getUint16(at, true) : this.view.getUint32(at, true);
  }

  /** What won a term; null if that is unknown. @param {number} term @param {string[]} vocabulary @returns {Winner | null} */
  winner(term, vocabulary) {
    const known = this.terms.get(term);
    if (!known) return null;
    const position = this.#number(this.positions + known.number * this.positionSize, this.positionSize);
    if (position === 2 ** (8 * this.positionSize) - 1) return null;
    const token = position - this.boxes;
    const region = token < 0 ? position : this.#region(token);
    const corners = [0, 1, 2, 3].map((i) => this.view.getUint16(this.corners + 8 * region + 2 * i, true));
    const [x1, y1, x2, y2] = corners.map((corner) => Math.fround(corner / LARGEST_CORNER));
    return { region, box: [x1, y1, x2, y2], label: token < 0 ? null : this.#label(token, region, vocabulary) };
  }

  /** @param {number} token */
  #region(token) {
    return this.#number(this.labelRegions + token * this.positionSize, this.positionSize);
  }

  /** @param {number} token @param {string[]} vocabulary */
  #term(token, vocabulary) {
    return vocabulary[this.#number(this.labelTerms + token * this.labelSize, this.labelSize)];
  }

  /** @param {number} token @param {number} region @param {string[]} vocabulary @returns {Label} */
  #label(token, region, vocabulary) {
    const words = [];
    for (let other = 0; other < this.labels; other++) {
      if (this.#region(other) === region) words.push(this.#term(other, vocabulary));
    }
    return { token: this.#term(token, vocabulary), words: joined(words) };
  }
}

/** All images. */
export class Records {
  /** @param {Pack} pack @param {number} together images of a chunk */
  constructor(pack, together) {
    this.pack = pack;
    this.together = together;
    /** @type {WeakMap<Uint8Array, ImageRecord[]>} */
    this.read = new WeakMap();
  }

  /** The images at some positions. @param {number[]} positions */
  async at(positions) {
    const contents = await this.pack.read(positions.map((one) => Math.floor(one / this.together)));
    return positions.map((one, i) => this.#images(contents[i])[one % this.together]);
  }

  /** @param {Uint8Array} content */
  #images(content) {
    let found = this.read.get(content);
    if (!found) {
      const bytes = new Bytes(content);
      found = /** @type {any[]} */ (parsed(bytes.part())).map((about) => new ImageRecord(about, bytes.part(), new Bytes(bytes.part())));
      this.read.set(content, found);
    }
    return found;
  }
}

/** Positions of ids by their hash, FNV-1a of 32 bits. */
export class Ids {
  /** @param {Pack} pack @param {number} chunks */
  constructor(pack, chunks) {
    this.pack = pack;
    this.chunks = chunks;
  }

  /** The position of an image, undefined if there is none. @param {string} id @returns {Promise<number | undefined>} */
  async position(id) {
    if (!this.chunks) return undefined;
    let hash = 2166136261;
    for (const byte of new TextEncoder().encode(id)) hash = Math.imul(hash ^ byte, 16777619) >>> 0;
    const [content] = await this.pack.read([hash % this.chunks]);
    return parsed(content).find((/** @type {[string, number]} */ [own]) => own === id)?.[1];
  }
}
