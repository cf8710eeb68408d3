// Terms of a text by tokenizers that mark where words begin or end: Unigram, and byte pairs.

import { SPACES } from "./grammar.js";
import { Tokenizer } from "./tokenizer.js";

/**
 * A tokenizer's pieces by id, those that are no terms, marks of words, patterns of the parts of a word, and scores
 * (Unigram) or pairs of ids in the order in which they are merged.
 * @typedef {{raw: string[], silent: number[], begins: string, ends: string, as_bytes: boolean, split: string[],
 *   form: "NFC" | "NFKC" | null, unspaced: string, scores: number[], merges: number[]}} Pieces
 * @typedef {{text: string, start: number, end: number}} Letter a character, or the sign of a byte, and where it was typed
 * @typedef {{id: number, start: number, end: number}} Piece -1 for what the model lacks
 * @import { Word, Words } from "./tokenizer.js"
 */

const TYPED = new RegExp(`[^${SPACES}]+`, "g");
const UNKNOWN = 10; // by which an unknown character scores less than any piece of Unigram
let next = 256; // GPT-2's signs of bytes: those that print are themselves
const SIGNS = Array.from({ length: 256 }, (_, byte) => String.fromCharCode(/[!-~¡-¬®-ÿ]/.test(String.fromCharCode(byte)) ? byte : next++));

/** The signs of a letter's bytes. @param {Letter} letter */
const signs = (letter) => [...new TextEncoder().encode(letter.text)].map((byte) => ({ ...letter, text: SIGNS[byte] }));

/** The matches of a pattern in letters. @param {Letter[]} letters @param {RegExp} pattern @returns {Letter[][]} */
function matches(letters, pattern) {
  const units = letters.flatMap((letter) => Array(letter.text.length).fill(letter));
  const text = letters.map((letter) => letter.text).join("");
  return [...text.matchAll(pattern)].map(({ 0: found, index }) => [...new Set(units.slice(index, index + found.length))]);
}

export class PieceTokenizer extends Tokenizer {
  /** @param {Words & {pieces: Pieces}} words */
  constructor(words) {
    super(words);
    this.spell = () => ""; // misspelt words are looked up as typed: pieces may lack letters
    const { raw, silent, split, unspaced, scores, merges } = (this.pieces = words.pieces);
    this.known = new Map(raw.map((piece, id) => [piece, id]));
    this.silent = new Set([-1, ...silent]);
    this.split = split.map((pattern) => new RegExp(pattern, "gu"));
    this.unspaced = new RegExp(unspaced, "u");
    this.longest = raw.reduce((most, piece) => Math.max(most, piece.length), 0);
    this.least = scores.reduce((least, score) => Math.min(least, score), Infinity) - UNKNOWN;
    this.pair = (/** @type {number} */ a, /** @type {number} */ b) => a * (raw.length + 1) + b + 1;
    this.ranks = new Map(Array.from({ length: merges.length / 2 }, (_, i) => [this.pair(merges[2 * i], merges[2 * i + 1]), i]));
  }

  /** @override @param {string} text @returns {Word[]} */
  plain(text) {
    const { form, raw, begins } = this.pieces;
    const typed = form ? text.normalize(form) : text;
    /** @type {{start: number, end: number, pieces: number[]}[]} */
    const found = [];
    for (const part of [...typed.matchAll(TYPED)].flatMap((one) => this.#parts(one[0], one.index))) {
      let word = { start: 0, end: Infinity, pieces: [-1] };
      for (const { id, start, end } of this.pieces.scores.length ? this.#likeliest(part) : this.#merged(part)) {
        if (raw[id] === begins) continue;
        const apart = start >= word.end && this.unspaced.test(this.vocabulary[id] ?? "");
        if (apart || word.end === Infinity) found.push((word = { start, end, pieces: [] }));
        word.end = end;
        if (!this.silent.has(id)) word.pieces.push(id);
      }
    }
    return found.map(({ start, end, pieces }) => ({ text: typed.slice(start, end), pieces }));
  }

  /** The parts of a text without white space, each of some pieces. @param {string} typed @param {number} at */
  #parts(typed, at) {
    const { begins, ends, as_bytes: bytes } = this.pieces;
    /** @type {Letter[][]} */
    let parts = [[]];
    for (const char of typed) {
      for (const text of this.cleaned(char)) {
        if (text === " ") parts.push([]);
        else parts[parts.length - 1].push({ text, start: at, end: at + char.length });
      }
      at += char.length;
    }
    const before = [...(bytes && begins ? " " : begins)];
    parts = parts.filter((one) => one.length).map((one) => [...before.map((text) => ({ ...one[0], text })), ...one]);
    for (const pattern of this.split) parts = parts.flatMap((part) => matches(part, pattern));
    if (bytes) parts = parts.map((part) => part.flatMap(signs));
    for (const part of parts) part[part.length - 1].text += ends;
    return parts;
  }

  /** The pieces of the highest score together: Unigram. @param {Letter[]} letters @returns {Piece[]} */
  #likeliest(letters) {
    const best = [{ score: 0, first: 0, id: -1 }];
    const offer = (/** @type {number} */ first, /** @type {number} */ end, /** @type {number} */ own, id = -1) => {
      const score = own + best[first].score;
      if (!best[end] || score > best[end].score) best[end] = { score, first, id };
    };
    for (let first = 0; first < letters.length; first++) {
      for (let end = first + 1, text = letters[first].text; end <= letters.length && text.length <= this.longest; text += letters[end++]?.text) {
        const id = this.known.get(text);
        if (id !== undefined) offer(first, end, this.pieces.scores[id], id);
        else if (end === first + 1) offer(first, end, this.least);
      }
    }
    /** @type {Piece[]} */
    const found = [];
    for (let end = letters.length, { first, id } = best[end]; end > 0; end = first, { first, id } = best[end]) {
      found.unshift({ id, start: letters[first].start, end: letters[end - 1].end });
    }
    return found;
  }

  /** The pieces left when all pairs are merged, the first of the table first. @param {Letter[]} letters @returns {Piece[]} */
  #merged(letters) {
    const pieces = letters.map(({ text, start, end }) => ({ id: this.known.get(text) ?? -1, start, end }));
    for (;;) {
      const ranks = pieces.map(({ id }, i) => this.ranks.get(this.pair(id, pieces[i + 1]?.id)) ?? Infinity);
      const least = Math.min(...ranks);
      if (least === Infinity) return pieces;
      const [a, b] = pieces.slice(ranks.indexOf(least));
      const merged = this.known.get(this.pieces.raw[a.id] + this.pieces.raw[b.id]) ?? -1;
      pieces.splice(ranks.indexOf(least), 2, { id: merged, start: a.start, end: b.end });
    }
  }
}
